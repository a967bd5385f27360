"""Make tiny files of every format of this version, which later versions must be able to read.

    python scripts/format_samples.py            # into tests/data/formats/

Each format has a folder named after it and its version, with a file ``numbers.json`` that says what
the files gave when they were made. A folder that is there already is left alone: it was made by an
older version of the package, and that is what it is for.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import vpintegrator as vp
from vpintegrator.data import dataset_file
from vpintegrator.models import saving
from vpintegrator.rollout import recording
from vpintegrator.rollout.report import FORMAT_VERSION as ROLLOUT_VERSION

FOLDER = Path(__file__).resolve().parents[1] / "tests" / "data" / "formats"
WHOLE = "whole.h5"
PLAIN = FOLDER / "dataset-1"  # where nothing varies the format is that of version 1
FAMILY, FAMILY_VIEW = "family.h5", "family-view.h5"
ROLLOUT = "rollout.h5"
CHECKPOINT = "checkpoint"
# an implicit method is integrated one trajectory at a time, so that 65 of them make two shards
SHARDED = {"method": "LSODA", "count": 65, "steps": 1, "rtol": 1e-6, "atol": 1e-6}
MODELS: dict[str, tuple[type, dict[str, Any], str]] = {
    "vpt": (vp.models.VolumePreservingTransformer, {"window": 3, "width": 4}, "float64"),
    "vpff": (vp.models.VolumePreservingFeedForward, {"depth": 1, "width": 4}, "float64"),
    "vpmt": (
        vp.models.VolumePreservingMultiheadTransformer,
        {"window": 2, "width": 4, "depth": 1},
        "float64",
    ),
    "transformer": (
        vp.models.StandardTransformer,
        {"window": 3, "prediction_window": 2, "depth": 1},
        "float64",
    ),
    "resnet": (vp.models.ResidualNetwork, {"depth": 1, "width": 4}, "float32"),
}
POLYNOMIAL = {"functions": "polynomial"}
SYMPLECTIC: dict[str, dict[str, Any]] = {
    "whole": {"symmetries": False, "model": "spff", **POLYNOMIAL},
    "bodies": {"model": "spff", **POLYNOMIAL},
    "neurons": {"model": "spff", "functions": "neurons", "width": 4},
    "windows": {"model": "spt", "window": 2, **POLYNOMIAL},
}
REVERSIBLE = ("vpt", "vpff")
INTERRUPTED = 2  # steps of the method at hand
COMPARISON: dict[str, Any] = {"steps": 30, "trajectories": 2, "seed": 3, "compiled": False}


def current_versions() -> dict[str, int]:
    """Every format and its version in the package at hand."""
    return {
        "dataset": dataset_file.FORMAT_VERSION,
        "model": saving.VERSION,
        "rollout": ROLLOUT_VERSION,
        "rollout-checkpoint": recording.FORMAT_VERSION,
    }


def window(model: Any) -> torch.Tensor:
    """The window that a sample is asked about, (1, window, dim): the same for ever."""
    count = model.window * model.dim
    values = [(7 * k % 11 - 5) / 8 for k in range(count)]
    return torch.tensor(values, dtype=model.scale.dtype).reshape(1, model.window, model.dim)


def build(name: str) -> Any:
    """An untrained model of a sample's architecture and sizes."""
    architecture, sizes, dtype = MODELS[name]
    options = dict(sizes)
    if name in REVERSIBLE:
        options["reversing_symmetries"] = vp.load_system("rigid-body").reversing_symmetries
    torch.manual_seed(1)
    return architecture(dim=3, dtype=getattr(torch, dtype), **options)


def comparison(model: Any, folder: Path, **options: Any) -> Any:
    """The comparison whose checkpoint is a sample."""
    options = COMPARISON | {"checkpoint": folder / CHECKPOINT} | options
    return vp.compare({"vpff": model}, ["rk4"], **options)


# ------------------------------------------- what a sample gives, for numbers.json and the tests


def dataset_numbers(path: Path) -> dict[str, Any]:
    """Of a dataset."""
    dataset = vp.open_dataset(path)
    groups = {name: dataset.states(name) for name in dataset.shapes}
    step, conditions, family = float(dataset.attributes["step"]), None, {}
    if dataset.is_family:
        values = {name: dataset.conditions(name) for name in dataset.shapes}
        conditions = dataset_file.Conditions(dataset.varied, values)
        family = {
            "varied": {name: list(bounds) for name, bounds in dataset.varied.items()},
            "last conditions": values["test"][-1].tolist(),
        }
    if dataset.system.is_discrete:
        family["image"] = dataset.system.map(groups["test"][:, 0]).tolist()
    return family | {
        "system": dataset.system.name,
        "step": step,
        "shapes": {name: list(shape) for name, shape in dataset.shapes.items()},
        "fingerprint": dataset.fingerprint,
        "fingerprint of the states": dataset_file.fingerprint(groups, step, conditions),
        "last state": groups["test"][-1, -1].tolist(),
        "estimated error": dataset.accuracy.get("estimated_error"),
        "complete": dataset.is_complete,
    }


def model_numbers(path: Path) -> dict[str, Any]:
    """Of a model."""
    model = vp.load(path)
    training = json.loads(model.metadata["training"])
    with torch.no_grad():
        output = model(window(model))
    family = {}
    if model.conditions:
        single = model.at(**{name: low for name, (low, _) in model.conditions.items()})
        with torch.no_grad():
            member = single(window(single)).flatten().tolist()
        family = {"conditions": [*model.conditions], "member": member}
    return family | {
        "architecture": model.name,
        "dtype": str(model.scale.dtype),
        "symmetries": len(model.reversing_symmetries),
        "step": float(single.metadata["step"] if family else model.metadata["step"]),
        "system": model.metadata["system_name"],
        "validation error": training["best_validation_error"],
        "output": output.double().flatten().tolist(),
    }


def rollout_numbers(report: Any) -> dict[str, Any]:
    """Of a rollout."""
    return {
        "system": report.system.name,
        "times": report.times.tolist(),
        "reference": report.reference[:, -1].tolist(),
        "states": {name: run.states[:, -1].tolist() for name, run in report.runs.items()},
        "summaries": {name: _plain(report.summary(name)) for name in report.runs},
        "crossings": {
            name: None if run.section is None else run.section.time.tolist()
            for name, run in report.runs.items()
        },
        "work-precision": {
            name: study.error.tolist() for name, study in report.work_precision.items()
        },
    }


def training_numbers(model: Any, history: Any) -> dict[str, Any]:
    """Of a training that has ended."""
    with torch.no_grad():
        output = model(window(model))
    return {
        "validation errors": history.validation_error,
        "test error": history.test_error,
        "output": output.flatten().tolist(),
    }


def _plain(summary: Any) -> dict[str, Any]:
    """A summary without wall times, as JSON keeps it."""
    values = dict(vars(summary))
    del values["seconds_per_step"]
    return json.loads(json.dumps(values))


# ------------------------------------------------------------------------- making the samples


def make_family(folder: Path, _: Path) -> dict[str, Any]:
    """Trajectories of different steps and parameters: one file, and a view of its shards."""
    vary = {"step": [0.05, 0.4], "I1": [1.5, 2.5], "I3": {"low": 0.5, "high": 0.9, "log": True}}
    options = {"seed": 5, "vary": vary}
    vp.generate("rigid-body", folder / FAMILY, count=12, steps=6, **options)
    vp.generate("rigid-body", folder / FAMILY_VIEW, single_file=False, **options, **SHARDED)
    return {name: dataset_numbers(folder / name) for name in (FAMILY, FAMILY_VIEW)}


def saved(path: Path, model: Any, dataset: vp.data.Dataset) -> dict[str, Any]:
    """A model trained for two epochs and saved, and what it gives, under the file's name."""
    vp.train(model, dataset, epochs=2, compiled=False)
    model.metadata["dataset"] = dataset.path.name  # not where it was
    vp.save(model, path)
    return {path.name: model_numbers(path)}


def make_maps(folder: Path, _: Path) -> dict[str, Any]:
    """Of a map by formula, and of return maps: stroboscopic, by section, and of every energy."""
    numbers = {}
    poincare = vp.return_map("henon-heiles", "q[0] = 0", energy=0.1)
    kinds: dict[str, tuple[Any, dict[str, Any]]] = {
        "formula": ("standard-map", {}),
        "stroboscopic": (vp.return_map("forced-duffing", "t = 0", return_times=True), {}),
        "section": (poincare, {}),
        "section-family": (poincare, {"vary": {"energy": [0.05, 0.1]}}),
    }
    for name, (system, options) in kinds.items():
        path = folder / f"{name}.h5"
        vp.generate(system, path, count=6, steps=2, seed=5, **options)
        numbers[path.name] = dataset_numbers(path)
    return numbers


def make_model(folder: Path, dataset: Path) -> dict[str, Any]:
    """One of every architecture, trained for an epoch or two."""
    numbers = {}
    data = vp.open_dataset(dataset)
    for name, (_, _, dtype) in MODELS.items():
        numbers |= saved(folder / f"{name}-{dtype}.safetensors", build(name), data)
    return numbers


def make_symplectic_models(folder: Path, dataset: Path) -> dict[str, Any]:
    """Symplectic ones of a state as a whole and of many bodies, trained for two epochs."""
    numbers = {}
    sizes = {"count": 12, "steps": 6, "parameters": {"n": 4}}
    dataset = vp.generate("toda", folder / "toda.h5", seed=5, **sizes)
    for name, options in SYMPLECTIC.items():
        degree = {"degree": 3} if options["functions"] == "polynomial" else {}
        model = vp.models.build(dataset.system, seed=1, depth=1, **degree, **options)
        numbers |= saved(folder / f"{name}-float64.safetensors", model, dataset)
    dataset.path.unlink()
    return numbers


def make_families(folder: Path, _: Path) -> dict[str, Any]:
    """Models of every step and parameter: of polynomials and of neurons."""
    numbers = {}
    dataset = vp.open_dataset(FOLDER / "dataset-2" / FAMILY)
    for functions in ("polynomial", "neurons"):
        system = vp.data.ExtendedDataset(dataset).system
        sizes = {"degree": 3} if functions == "polynomial" else {"width": 4}
        model = vp.models.build(system, "vpff", functions=functions, depth=1, **sizes)
        numbers |= saved(folder / f"{functions}-float64.safetensors", model, dataset)
    return numbers


def make_coordinates(folder: Path, _: Path) -> dict[str, Any]:
    """Models in the coordinates of a chart, and of shears in several bases."""
    numbers = {}
    kinds: dict[str, dict[str, Any]] = {
        "lotka-volterra-2d": {},
        "point-vortices": {"bases": 2, "sweep": "symmetric"},
    }
    for name, options in kinds.items():
        dataset = vp.generate(name, folder / f"{name}.h5", count=12, steps=6, seed=5)
        sizes = {"functions": "polynomial", "degree": 2, "depth": 1}
        model = vp.models.build(dataset.system, **sizes, **options)
        numbers |= saved(folder / f"{name}-float64.safetensors", model, dataset)
        dataset.path.unlink()
    return numbers


def make_rollout(folder: Path, dataset: Path) -> dict[str, Any]:
    """Everything that a rollout can hold."""
    model = build("vpff")
    vp.train(model, dataset, epochs=2, compiled=False)
    options = COMPARISON | {"every": 3, "section": "z1 = 0", "work_precision": True}
    report = vp.compare({"vpff": model}, ["rk4"], **options)
    report.save(folder / ROLLOUT)
    return {ROLLOUT: rollout_numbers(vp.open_rollout(folder / ROLLOUT))}


def make_rollout_checkpoint(folder: Path, dataset: Path) -> dict[str, Any]:
    """A comparison that stopped early, its model, and what it ends with when it goes on."""
    model = build("vpff")
    vp.train(model, dataset, epochs=1, compiled=False)
    model.metadata["dataset"] = dataset.name
    vp.save(model, folder / "vpff.safetensors")

    def progress(name: str, done: int, total: int) -> None:
        if name == "rk4" and done >= INTERRUPTED:
            raise KeyboardInterrupt

    numbers = rollout_numbers(comparison(model, folder, checkpoint=None))
    try:
        comparison(model, folder, progress=progress)
    except KeyboardInterrupt:
        return {CHECKPOINT: numbers}
    raise AssertionError("it was not interrupted")


# a format, and what tells samples of it apart
MAKERS: dict[tuple[str, str], Callable[[Path, Path], dict[str, Any]]] = {
    ("dataset", ""): make_family,
    ("dataset", "-maps"): make_maps,
    ("model", ""): make_model,
    ("model", "-symplectic"): make_symplectic_models,
    ("model", "-families"): make_families,
    ("model", "-coordinates"): make_coordinates,
    ("rollout", ""): make_rollout,
    ("rollout-checkpoint", ""): make_rollout_checkpoint,
}


def main() -> None:
    """Make what is missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    top = parser.parse_args().folder
    versions = current_versions()
    dataset = PLAIN / WHOLE
    for (kind, what), make in MAKERS.items():
        folder = top / f"{kind}-{versions[kind]}{what}"
        if folder.exists():
            print(f"{folder} is there already")
            continue
        folder.mkdir(parents=True)
        numbers = make(folder, dataset)
        text = json.dumps(numbers, indent=1)
        (folder / "numbers.json").write_text(text + "\n", encoding="utf-8")
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        print(f"{folder}: {size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
