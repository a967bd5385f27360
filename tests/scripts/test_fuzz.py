"""Damaged files are read, or refused in a sentence."""

import importlib
import struct
from pathlib import Path

import h5py
import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture
def fuzz(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPTS)
    return importlib.import_module("fuzz")


@pytest.mark.parametrize(
    "name", ["dataset", "model", "rollout", "system", "recipe", "arrays", "hdf5", "table"]
)
def test_damaged_files(fuzz, tmp_path, name):
    assert name in fuzz.KINDS
    count = 300 if name in ("dataset", "rollout", "hdf5") else 12
    failures = [
        text for _, text in fuzz.run(name, count, 0, tmp_path) if text not in ("read", "refused")
    ]
    assert not failures, failures[0]


def test_a_reader_that_hangs_is_ended(fuzz, tmp_path, monkeypatch):
    """HDF5 goes round for ever in a heap of texts: only a process can be ended then."""
    paths = [tmp_path / f"{name}.h5" for name in ("hanging", "sound")]
    for path in paths:
        with h5py.File(path, "w") as file:
            file.attrs["text"] = "x" * 100
    data = bytearray(paths[0].read_bytes())
    heap = data.index(b"GCOL")
    data[heap + 24 : heap + 32] = struct.pack("<Q", 2**64 - 16)
    paths[0].write_bytes(data)
    monkeypatch.setattr(fuzz, "_HANGING", 2.0)
    outcomes = list(fuzz.outcomes_of("unchecked", paths))
    assert outcomes[0].startswith("hanging")
    assert outcomes[1] == "read"


def test_a_reader_that_fails_is_found(fuzz, tmp_path):
    def fails(path):
        raise KeyError(path)

    assert "KeyError" in fuzz.outcome(fails, tmp_path)
    assert fuzz.outcome(lambda path: None, tmp_path) == "read"
