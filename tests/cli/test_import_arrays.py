"""Positions and momenta in arrays of their own, through the commands."""

import h5py
import numpy as np
import pytest
import scipy.io

from tests.cli.conftest import refused
from vpintegrator.cli.gen import main
from vpintegrator.cli.train import main as train
from vpintegrator.data import open_dataset

ANGLE = np.linspace(0, 2 * np.pi, 6)[:, None, None] + 0.25 * np.arange(9)[:, None] + [0, 1]
ARRAYS = {"q": np.cos(ANGLE), "p": -np.sin(ANGLE), "time": 0.25 * np.arange(9)}


def write(path):
    """Write named arrays in the format of the ending."""
    if path.suffix == ".npz":
        np.savez(path, **ARRAYS)
    elif path.suffix == ".mat":
        scipy.io.savemat(path, ARRAYS)
    else:
        with h5py.File(path, "w") as file:
            for name, values in ARRAYS.items():
                file[name] = values


@pytest.mark.parametrize("ending", ["npz", "mat", "h5"])
def test_joined_arrays(run, ending, tmp_path):
    write(tmp_path / f"a.{ending}")
    given = ("--from", f"a.{ending}", "-o", "b.h5")
    result = run(main, *given, "--variable", "q,p", "--split", "time")
    assert result.exit_code == 0, result.output
    dataset = open_dataset("b.h5")
    assert dataset.system.components == ("q1", "q2", "p1", "p2")
    assert dataset.system.kind == "measured, symplectic"
    found = np.concatenate([dataset.states(group) for group in dataset.shapes], axis=1)
    np.testing.assert_array_equal(found, np.concatenate([ARRAYS["q"], ARRAYS["p"]], axis=-1))
    result = run(train, "b.h5", "--model", "linear", "-o", "b.safetensors")
    assert result.exit_code == 0, result.output
    assert refused(run(main, *given), "several arrays that may be the states")
    assert refused(run(main, *given, "--variable", "q,v"), "has no variable 'v'")
