"""What reads files from strangers, each with sound samples to damage and a use of what it read.

A reader takes a file and opens it as a command would, and touches what a user would look at. It may
end in an ``InputError`` or succeed; anything else is a defect.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import json
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import mutations as m
import numpy as np

import vpintegrator as vp
from vpintegrator.catalogue import SYSTEMS, catalogue


@dataclass(frozen=True)
class Reader:
    """One reader.

    Attributes
    ----------
    suffix
        Ending of its files.
    samples
        Makes sound files in a folder.
    read
        Opens a file and looks at what is in it; may write beside it.
    mutate
        The damage.
    """

    suffix: str
    samples: Callable[[Path], list[Path]]
    read: Callable[[Path], Any]
    mutate: m.Mutation


READERS: dict[str, Reader] = {}


def reader(
    name: str, suffix: str, samples: Callable[[Path], list[Path]], mutate: m.Mutation
) -> Callable[[Callable[[Path], Any]], Callable[[Path], Any]]:
    """Register the decorated function as a reader."""

    def register(function: Callable[[Path], Any]) -> Callable[[Path], Any]:
        READERS[name] = Reader(suffix, samples, function, mutate)
        return function

    return register


_RECIPE = """
system = "harmonic-oscillator"
step = 0.1
steps = 6
seed = 1
[trajectories]
train = 3
validation = 2
test = 2
[solver]
rtol = 1e-6
atol = 1e-6
"""

_SYSTEM = """
title = "Two arrays"
state = {q = 2, p = 2}
hamiltonian = "sum(p[i]**2/(2*m[i]) for i in range(2)) + k*sigmoid(q[0]) + cos(q[1])"
[parameters]
m = [1.0, "3/2"]
k = 0.5
[invariants]
energy = "sum(p[i]**2/(2*m[i]) for i in range(2)) + k*sigmoid(q[0]) + cos(q[1])"
[[reversing_symmetry]]
q = "q[i]"
p = "-p[i]"
[[symmetry]]
permute = ["q", "p"]
like = "m"
[initial_conditions]
distribution = "normal"
mean = [0, 0, 0, 0]
std = 0.5
[defaults]
step = 0.1
steps = 10
"""


@functools.cache
def _dataset(folder: Path) -> Path:
    (folder / "recipe.toml").write_text(_RECIPE, encoding="utf-8")
    vp.generate(folder / "recipe.toml", folder / "dataset.h5")
    return folder / "dataset.h5"


def _expressions(folder: Path) -> list[Path]:
    """One expression a file, from the catalogue and the documents."""
    texts = [
        "(1/I3 - 1/I2)*z2*z3",
        "sum(m[i]*z1**i for i in range(len(m))) + k*sigmoid(z2)",
        "sum(1/sqrt((z1*i - z2*j)**2 + 1) for i in range(n) for j in range(i))",
        "exp(-z1**2/2)*sin(2*pi*z2) - log(1 + z3**2)",
        "tanh(z1)*cos(z2)/(3 + tan(z3)**2)",
        "-k*(z1 - m[1])**3 + 1e-3*z2/m[0]",
    ]
    paths = [folder / f"expression-{k}.txt" for k in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text, encoding="utf-8")
    return paths


@reader("expressions", ".txt", _expressions, m.mutate_expression)
def _read_expression(path: Path) -> None:
    text = path.read_bytes().decode(errors="replace")
    system = vp.System(
        'state = ["z1", "z2", "z3"]\n[vector_field]\n'
        f'z1 = {m.dumps(text)}\nz2 = "z3"\nz3 = "-z2"\n'
        "[parameters]\nI2 = 1.0\nI3 = 0.5\nm = [1.0, 2.0, 3.0]\nk = 0.5\nn = 3\n",
        "fuzzed",
    )
    with np.errstate(all="ignore"):
        system.vector_field(np.linspace(0.1, 0.9, system.dim))
        system.jacobian(np.linspace(0.1, 0.9, system.dim))


def _systems(folder: Path) -> list[Path]:
    (folder / "own.toml").write_text(_SYSTEM, encoding="utf-8")
    for name, file in catalogue(SYSTEMS).items():
        if name not in _SLOW:
            (folder / f"{name}.toml").write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
    section = vp.return_map("henon-heiles", "q[0] = 0", energy=0.1).text
    (folder / "section.toml").write_text(section, encoding="utf-8")
    return sorted(folder.glob("*.toml"))


_SLOW = ("field-lines-coils",)  # a sum of hundreds of terms takes a second to read


@reader("systems", ".toml", _systems, m.mutate_toml)
def _read_system(path: Path) -> None:
    system = vp.load_system(path)
    repr(system)
    if system.is_measured:
        return
    try:
        states = system.sample_initial(3, np.random.default_rng(0))
    except vp.InputError:
        states = np.linspace(0.1, 0.9, system.dim)[None]
    with np.errstate(all="ignore"):
        if system.is_discrete:
            system.map(states)
        else:
            system.vector_field(states)
            system.jacobian(states)
        for invariant in system.invariants.values():
            invariant(states)


def _recipes(folder: Path) -> list[Path]:
    _dataset(folder)
    text = _RECIPE + (
        '[initial_conditions]\ndistribution = "uniform"\nlow = [-1, -1]\nhigh = [1, 1]\n'
        "[observation]\nnoise = 0.01\n"
        '[split]\nby = "trajectory"\n'
        "[vary]\nstep = [0.1, 0.4]\nk = { low = 0.5, high = 2, log = true }\n"
    )
    (folder / "full.toml").write_text(text, encoding="utf-8")
    return [folder / "recipe.toml", folder / "full.toml"]


@reader("recipes", ".toml", _recipes, m.mutate_toml)
def _read_recipe(path: Path) -> None:
    recipe = vp.load_recipe(path)
    repr(recipe)
    recipe.parts()
    again = vp.load_recipe(recipe.text)
    if again.text != recipe.text:
        raise AssertionError("the stored recipe is another one")


def _datasets(folder: Path) -> list[Path]:
    path = _dataset(folder)
    table = np.random.default_rng(0).normal(size=(6, 5, 2))
    vp.import_dataset(table, folder / "measured.h5", step=0.1)
    times = np.cumsum(np.random.default_rng(1).uniform(0.1, 1, (6, 5)), axis=1)
    vp.import_dataset(table, folder / "pairs.h5", times=times)
    vary = {"step": [0.1, 0.4], "I1": [1.5, 2.5]}
    vp.generate("rigid-body", folder / "family.h5", count=6, steps=4, vary=vary)
    return [path, *(folder / f"{name}.h5" for name in ("measured", "pairs", "family"))]


@reader("datasets", ".h5", _datasets, m.mutate_hdf5)
def _read_dataset(path: Path) -> None:
    from vpintegrator.cli.inspecting import inspect

    dataset = vp.open_dataset(path)
    repr(dataset)
    _ = dataset.system, dataset.dim, dataset.description
    for group in dataset.shapes:
        dataset.states(group)
        dataset.conditions(group)
        dataset.origins(group)
    dataset.sample_windows(4, 1)
    path.with_suffix(".png").touch()  # so that all is said and nothing is drawn
    inspect(path, None, overwrite=False)


def _models(folder: Path) -> list[Path]:
    rho = [[-1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    models = vp.models
    made = {
        "vpt": models.VolumePreservingTransformer(dim=3, depth=1, width=2),
        "vpff": models.VolumePreservingFeedForward(dim=3, depth=1, reversing_symmetries=[rho]),
        "vpmt": models.VolumePreservingMultiheadTransformer(dim=4, depth=1),
        "transformer": models.StandardTransformer(dim=3, depth=1),
        "resnet": models.ResidualNetwork(dim=3, depth=1),
    }
    polynomials = {"functions": "polynomial", "degree": 2, "depth": 1}
    made["family"] = models.VolumePreservingFeedForward(dim=3, conserved=[2], **polynomials)
    for name, model in made.items():
        model.metadata = {"system_name": "rigid-body", "step": "0.2"}
        if name == "family":
            ranges = {"step": [0.1, 0.3], "g": [1, 2]}
            family = {"conditions": ranges, "coefficients": ["z[0]*z[1]"], "nominal": {"g": 1.5}}
            model.metadata = {"system_name": "pendulum", "family": json.dumps(family)}
        vp.save(model, folder / f"{name}.safetensors")
    return [folder / f"{name}.safetensors" for name in made]


@reader("models", ".safetensors", _models, m.mutate_safetensors)
def _read_model(path: Path) -> None:
    import torch

    model = vp.load(path)
    repr(model)
    with torch.no_grad():
        model(torch.zeros(1, model.window, model.dim, dtype=model.scale.dtype))
    if model.conditions:
        model.at(**{name: low for name, (low, _) in model.conditions.items()})


def _julia_networks(folder: Path) -> list[Path]:
    """As GeometricMachineLearning.jl writes them."""
    rng = np.random.default_rng(0)
    with h5py.File(folder / "transformer.h5", "w") as file:
        file["L1/W"], file["L1/b"] = rng.random((2, 4)), rng.random(4)
        for key in ("PQ", "PK", "PV"):
            for head in (1, 2):
                file[f"L2/{key}/head_{head}"] = rng.random((2, 4))
        file["L3/weight"], file["L3/bias"] = rng.random((4, 4)), rng.random(4)
        file["L4/weight"], file["L4/bias"] = rng.random((4, 4)), rng.random(4)
        file["L5/W"], file["L5/b"] = rng.random((4, 2)), rng.random(2)
    with h5py.File(folder / "volume-preserving.h5", "w") as file:
        attention = file.create_group("L1/A")
        attention["S"], attention["n"] = rng.random(3), 3
        attention.attrs["gml_type"] = "SkewSymMatrix"
        for index, bias in enumerate((False, True, True, True, False, True), 2):
            weight = file.create_group(f"L{index}/weight")
            weight["S"], weight["n"] = rng.random(3), 3
            kind = "UpperTriangular" if index % 2 else "LowerTriangular"
            weight.attrs["gml_type"] = kind
            if bias:
                file[f"L{index}/bias"] = rng.random(3)
    return [folder / "transformer.h5", folder / "volume-preserving.h5"]


@reader("julia-networks", ".h5", _julia_networks, m.mutate_hdf5)
def _read_julia_network(path: Path) -> None:
    import torch

    model = vp.models.load_gml(path)
    repr(model)
    with torch.no_grad():
        model(torch.zeros(1, model.window, model.dim, dtype=model.scale.dtype))


def _rollouts(folder: Path) -> list[Path]:
    report = vp.compare(
        None,
        against=["rk4", "implicit-midpoint"],
        system=vp.load_system("harmonic-oscillator"),
        step=0.1,
        steps=40,
        trajectories=2,
        section="q = 0",
        work_precision=True,
    )
    report.save(folder / "rollout.h5")
    return [folder / "rollout.h5"]


@reader("rollouts", ".h5", _rollouts, m.mutate_hdf5)
def _read_rollout(path: Path) -> None:
    from vpintegrator.plotting import tables
    from vpintegrator.plotting.captions import caption, markdown_paragraphs
    from vpintegrator.plotting.figures import FIGURES
    from vpintegrator.plotting.scene import Scene

    report = vp.open_rollout(path)
    repr(report)
    with np.errstate(all="ignore"):
        for render in (tables.csv_table, tables.markdown_table, tables.latex_table):
            render(report)
        tables.terminal_table(report)
        scene = Scene(report)
        texts = {
            name: caption(scene, figure)
            for name, figure in FIGURES.items()
            if figure.applies(scene)
        }
        markdown_paragraphs(texts)


_TRAININGS = (("levenberg-marquardt", "float64"), ("adam", "float32"), ("l-bfgs", "float64"))


@functools.cache
def _oscillator() -> vp.System:
    return vp.load_system("harmonic-oscillator")


def _compare(checkpoint: Path, **options: Any) -> Any:
    keywords = {"step": 0.1, "steps": 12, "every": 2, "trajectories": 2, "section": "q = 0"}
    against = ["rk4", "implicit-midpoint"]
    return vp.compare(
        None, against, system=_oscillator(), checkpoint=checkpoint, **keywords, **options
    )


def _rollout_checkpoints(folder: Path) -> list[Path]:
    """The files of a folder, in an archive."""

    def stop(method: str, done: int, total: int) -> None:
        if method == "implicit-midpoint" and done >= 6:
            raise KeyboardInterrupt

    checkpoint = folder / "checkpoint"
    with contextlib.suppress(KeyboardInterrupt):
        _compare(checkpoint, progress=stop)
    with zipfile.ZipFile(folder / "checkpoint.zip", "w") as archive:
        for file in sorted(checkpoint.iterdir()):
            archive.write(file, file.name)
    shutil.rmtree(checkpoint)
    return [folder / "checkpoint.zip"]


@reader("rollout-checkpoints", ".zip", _rollout_checkpoints, m.mutate_archive)
def _read_rollout_checkpoint(path: Path) -> None:
    folder = path.with_suffix(".checkpoint")
    try:
        with zipfile.ZipFile(path) as archive:
            archive.extractall(folder)
        _compare(folder, resume=True).table()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _tables(folder: Path) -> list[Path]:
    rows = ["trajectory,time,x,y"]
    rows += [f"{k},{0.1 * t:.1f},{k + t:.3f},{k - t:.3f}" for k in range(3) for t in range(9)]
    (folder / "long.csv").write_text("\n".join(rows), encoding="utf-8")
    (folder / "plain.csv").write_text("x,y\n" + "1,2\n3,4\n" * 4, encoding="utf-8")
    (folder / "comma.csv").write_text(
        "% logger 7\ntime [s];x [µm];note\n"
        + "".join(f"{0.1 * t:.1f};{t / 3:.3f};ok\n".replace(".", ",") for t in range(20)),
        encoding="utf-16",
    )
    days = "".join(f"2026-05-01T12:00:00.{t}Z {t / 3:.3f} -\n" for t in range(9))
    (folder / "dates.csv").write_text(days, encoding="latin-1")
    (folder / "packed.csv").write_bytes(gzip.compress("\n".join(rows).encode()))
    return sorted(folder.glob("*.csv"))


def _import(path: Path) -> None:
    output = path.with_name("imported.h5")
    vp.import_dataset(path, output, overwrite=True, split="time", step=0.1)


@reader("imports-csv", ".csv", _tables, m.mutate_text)
def _read_table(path: Path) -> None:
    output = path.with_name("imported.h5")
    data = path.read_bytes()
    step, missing = None if b"time" in data else 0.1, len(data) % 2 == 0
    vp.import_dataset(path, output, overwrite=True, split="time", step=step, missing=missing)


def _archives(folder: Path) -> list[Path]:
    states = np.random.default_rng(0).normal(size=(4, 9, 2))
    np.savez(folder / "states.npz", state=states, times=0.1 * np.arange(9))
    np.savez_compressed(folder / "packed.npz", state=states)
    return [folder / "states.npz", folder / "packed.npz"]


reader("imports-npz", ".npz", _archives, m.mutate_npz)(_import)


def _arrays(folder: Path) -> list[Path]:
    np.save(folder / "states.npy", np.random.default_rng(0).normal(size=(4, 9, 2)))
    return [folder / "states.npy"]


reader("imports-npy", ".npy", _arrays, m.mutate_npy)(_import)


def _hdf5(folder: Path) -> list[Path]:
    states = np.random.default_rng(0).normal(size=(4, 9, 2))
    with h5py.File(folder / "plain.h5", "w") as file:
        file["state"] = states
        file["time"] = 0.1 * np.arange(9)
    with h5py.File(folder / "packed.h5", "w") as file:
        group = file.create_group("run")
        packed = group.create_dataset("state", data=states, chunks=(1, 3, 2), compression="gzip")
        packed.attrs["units"] = "m"
    with h5py.File(folder / "matlab.h5", "w", userblock_size=512) as file:
        for name, values in {
            "x": states.T,
            "t": 0.1 * np.arange(9)[None],
            "note": [[104, 105]],
        }.items():
            file[name] = values
            file[name].attrs["MATLAB_class"] = np.bytes_("char" if name == "note" else "double")
        file["t"].make_scale("time")
        file["x"].dims[1].attach_scale(file["t"])
    return [folder / "plain.h5", folder / "packed.h5", folder / "matlab.h5"]


reader("imports-hdf5", ".h5", _hdf5, m.mutate_hdf5)(_import)


def _netcdf(folder: Path) -> list[Path]:
    import xarray

    states = np.random.default_rng(0).normal(size=(4, 9, 2))
    dimensions = ("trajectory", "time", "component")
    array = xarray.DataArray(states, dims=dimensions, coords={"time": 0.1 * np.arange(9)})
    array.to_dataset(name="state").to_netcdf(folder / "new.nc", engine="h5netcdf")
    array.to_dataset(name="state").to_netcdf(
        folder / "classic.nc", engine="scipy", format="NETCDF3_64BIT"
    )
    return [folder / "new.nc", folder / "classic.nc"]


def _mutate_netcdf(random: Any, data: bytes) -> bytes:
    return (m.mutate_bytes if data[:3] == b"CDF" else m.mutate_hdf5)(random, data)


reader("imports-netcdf", ".nc", _netcdf, _mutate_netcdf)(_import)
