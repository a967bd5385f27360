"""Writing HDF5 files: a full disk and an interruption end neither the process nor a file."""

from __future__ import annotations

import resource

import numpy as np
import pytest

import vpintegrator as vp
from vpintegrator.storage.hdf5 import create_hdf5

STATES = np.random.default_rng(0).normal(size=(60, 400, 4))


@pytest.fixture
def small_files():
    """No file may be larger than 100 kB, as if the disk were full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_write_that_fails_is_one_sentence_and_keeps_the_old_file(tmp_path, small_files):
    for _ in range(2):
        with pytest.raises(OSError, match="the disk is full; make room"):
            vp.import_dataset(STATES, tmp_path / "a.h5", step=0.1)
    assert not list(tmp_path.iterdir())
    dataset = vp.import_dataset(STATES[:5, :20], tmp_path / "a.h5", step=0.1)
    with pytest.raises(OSError, match="make room"):
        vp.import_dataset(STATES, tmp_path / "a.h5", step=0.1, overwrite=True)
    assert vp.open_dataset(tmp_path / "a.h5").fingerprint == dataset.fingerprint
    assert len(list(tmp_path.iterdir())) == 1


def test_an_interruption_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt), create_hdf5(tmp_path / "a.h5") as file:
        file["x"] = STATES
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())
