"""Files of all format versions so far open; newer ones are refused in one sentence."""

import json
import shutil

import h5py
import numpy as np
import pytest
import safetensors
import safetensors.torch
import torch

import vpintegrator as vp
from scripts import format_samples as samples
from tests.plotting.conftest import only
from vpintegrator.errors import InputError

KINDS = {name: sorted(samples.FOLDER.glob(f"{name}-[0-9]*")) for name in samples.current_versions()}


def recorded(folder):
    return json.loads((folder / "numbers.json").read_text(encoding="utf-8"))


def files(kind):
    """Every sample of a kind: a file, and the numbers that it gave."""
    return [
        pytest.param(folder / name, numbers, id=f"{folder.name}/{name}")
        for folder in KINDS[kind]
        for name, numbers in recorded(folder).items()
    ]


@pytest.fixture
def copy(tmp_path):
    """A copy of a sample's folder, so that nothing is written into the samples."""

    def copied(path):
        return shutil.copytree(path.parent, tmp_path / path.parent.name) / path.name

    return copied


def the_same(found, expected, where="", rtol=1e-11, atol=1e-13):
    """Whether what is recorded is found; numbers may differ by rounding on another machine."""
    if isinstance(expected, dict):
        assert set(expected) <= set(found), where
        for key, value in expected.items():
            the_same(found[key], value, f"{where}/{key}", rtol, atol)
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected), where
        for k, value in enumerate(expected):
            the_same(found[k], value, f"{where}/{k}", rtol, atol)
    elif isinstance(expected, float):
        np.testing.assert_allclose(found, expected, rtol, atol, err_msg=where)
    else:
        assert found == expected, where


def test_there_are_samples_of_every_format_of_this_version():
    for name, version in samples.current_versions().items():
        assert samples.FOLDER / f"{name}-{version}" in KINDS[name], (
            "make them by scripts/format_samples.py"
        )


# ------------------------------------------------------------------------------ older ones open


@pytest.mark.parametrize(("path", "numbers"), files("dataset"))
def test_datasets_open(path, numbers):
    the_same(samples.dataset_numbers(path), numbers)


@pytest.mark.parametrize(("path", "numbers"), files("model"))
def test_models_open(path, numbers):
    single = path.stem.endswith("32")
    the_same(samples.model_numbers(path), numbers, rtol=1e-5 if single else 1e-12)


def rollout_numbers(report):
    """Those of a rollout, changes of invariants in units of each orbit's own value as then."""
    found = samples.rollout_numbers(report)
    for name, run in report.runs.items():
        summary = found["summaries"][name]
        for key, change in run.invariants.items():
            first = np.abs(report.system.invariants[key](report.reference[:, 0]))
            factor = first.max() / first
            slope, error = change.drift.slope * factor, change.drift.standard_error * factor
            worst = np.argmax(np.abs(slope))
            summary["invariants"][key] = float((change.largest * factor).max())
            summary["drifts"][key] = float(slope[worst])
            summary["drift_errors"][key] = float(error[worst])
    return found


@pytest.mark.parametrize(("path", "numbers"), files("rollout"))
def test_rollouts_open_and_are_drawn(path, numbers, tmp_path, monkeypatch):
    the_same(rollout_numbers(vp.open_rollout(path)), numbers)
    only(monkeypatch, "errors")
    assert vp.draw(path, tmp_path / "figures", formats=["png"])


@pytest.mark.parametrize(("path", "numbers"), files("rollout-checkpoint"))
def test_comparisons_go_on(path, numbers, copy):
    folder = copy(path).parent
    begun = []
    report = samples.comparison(
        vp.load(folder / "vpff.safetensors"),
        folder,
        resume=True,
        progress=lambda name, done, total: begun.append((name, done, total)),
    )
    found = rollout_numbers(report)
    # diagnostics made of differences of rounding errors are equal in size only
    volumes = [found["summaries"][name].pop("volume") for name in report.runs]
    assert all(value < 1e-10 for volume in volumes[:1] for value in volume.values())
    for expected in numbers["summaries"].values():
        del expected["volume"]
        expected.pop("drift_errors", None)  # they account for noise with a memory since
    the_same(found, numbers, rtol=1e-8, atol=1e-11)
    assert next(call for call in begun if call[0] == "vpff")[1] == samples.COMPARISON["steps"]


# ------------------------------------------------------------------------- newer ones are refused


def of_a_newer_version(path):
    """Change the version in a file, or a folder, to one that will come."""
    if path.is_dir():
        identity = path / "rollout.json"
        values = json.loads(identity.read_text(encoding="utf-8"))
        name, _, number = values["format"].rpartition("-")
        values["format"] = f"{name}-{int(number) + 1}"
        identity.write_text(json.dumps(values), encoding="utf-8")
    elif h5py.is_hdf5(path):
        with h5py.File(path, "r+") as file:
            file.attrs["format_version"] += 1
    else:
        with safetensors.safe_open(path, framework="pt") as file:
            header = file.metadata()
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        key = "version" if "version" in header else "format_version"
        header[key] = str(int(header[key]) + 1)
        safetensors.torch.save_file(tensors, path, header)


def open_again(kind, path):
    if kind == "dataset":
        vp.open_dataset(path)
    elif kind == "model":
        vp.load(path)
    elif kind == "rollout":
        vp.open_rollout(path)
    else:
        model = vp.load(path.parent / "vpff.safetensors")
        samples.comparison(model, path.parent, resume=True)


@pytest.mark.parametrize("kind", KINDS)
def test_newer_ones_are_refused_politely(kind, copy):
    folder = samples.FOLDER / f"{kind}-{samples.current_versions()[kind]}"
    path = copy(folder / next(iter(recorded(folder))))
    of_a_newer_version(path)
    before = {file: file.read_bytes() for file in path.parent.rglob("*") if file.is_file()}
    with pytest.raises(InputError) as refusal:
        open_again(kind, path)
    sentence = str(refusal.value)
    assert str(path) in sentence
    assert "install a newer vpintegrator" in sentence
    assert "\n" not in sentence
    # nor is it touched: the newer version can still go on with it
    assert {f: f.read_bytes() for f in path.parent.rglob("*") if f.is_file()} == before


def test_a_half_precision_sample_would_be_noticed():
    """The numbers are compared to more digits than single precision has."""
    with pytest.raises(AssertionError):
        the_same({"a": [float(torch.tensor(0.1).float())]}, {"a": [0.1]})
