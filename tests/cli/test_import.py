"""vp-import: tables, arrays, pairs, and the way of measured data through all commands."""

import re

import h5py
import numpy as np
import pytest
import scipy.io

import vpintegrator as vp
from tests.cli.conftest import refused
from tests.data.test_import_pairs import AFTER, BEFORE, NAMES, expected, pairs_of, table
from vpintegrator.cli.importing import main
from vpintegrator.cli.plot import main as plot
from vpintegrator.cli.rollout import main as rollout
from vpintegrator.cli.show import main as show
from vpintegrator.cli.train import main as train
from vpintegrator.data import open_dataset
from vpintegrator.rollout import open_rollout

TIMES = 0.1 * np.arange(40)
ANGLE = np.linspace(0, 2 * np.pi, 6)[:, None, None] + 0.25 * np.arange(9)[:, None] + [0, 1]
ARRAYS = {"q": np.cos(ANGLE), "p": -np.sin(ANGLE), "time": 0.25 * np.arange(9)}


@pytest.fixture
def lab(tmp_path):
    """A table of oscillations, written into the folder of the test."""
    lines = ["trajectory,time (s),q,p"]
    for k in range(8):
        size = 0.5 + 0.1 * k
        lines += [f"{k},{t:.2f},{size * np.cos(t):.9f},{-size * np.sin(t):.9f}" for t in TIMES]
    (tmp_path / "lab.csv").write_text("\n".join(lines) + "\n")
    return "lab.csv"


@pytest.mark.thorough
def test_measured_data_go_all_the_way(run, done, lab, tmp_path):
    output = done(main, lab)
    assert "equations not known" in output and "taken for symplectic" in output
    assert "6 train, 1 validation, 1 test; 39 steps of 0.1 each" in output
    done(train, "lab.h5", "--model", "vpt", "--window", "2", "--width", "4", "--epochs", "8")
    # the dataset is the one of the training, the reference what was measured
    output = done(rollout, "lab-vpt.safetensors")
    assert "lab: 1 orbit to t = 3.9, step 0.1 (beside the states given)" in output
    report = open_rollout("lab-rollout.h5")
    np.testing.assert_array_equal(report.reference, open_dataset("lab.h5").states("test"))
    assert run(plot, "lab-rollout.h5", "-o", "f", "--format", "png").exit_code == 0
    for options, message in (
        (["--against", "rk4"], "rk4 needs the equations of lab"),
        (["--reference", "solution"], "--reference solution needs the equations"),
        (
            ["--initial", "1,0", "--steps", "5"],
            "starts from measured ones",
        ),
    ):
        assert refused(run(rollout, "lab-vpt.safetensors", *options, "-o", "b.h5"), message)
    vp.import_dataset("lab.csv", "lab.h5", seed=5, overwrite=True)
    refusal = run(rollout, "lab-vpt.safetensors", "-o", "b.h5")
    assert refused(refusal, "lab.h5 has changed since lab-vpt was trained")
    (tmp_path / "lab.h5").unlink()
    assert refused(run(rollout, "lab-vpt.safetensors", "-o", "b.h5"), "is not found at")


def test_what_the_import_assumed_is_printed_and_kept(done, lab):
    output = done(main, lab, "--system", "harmonic-oscillator", "-p", "k=1", "-o", "a.h5")
    (note,) = re.findall(r"note +(one step of the equations misses.*)", output)
    assert float(re.findall(r"by (\S+) of", note)[0]) < 1e-7
    assert note[:60] in done(show, "a.h5")
    assert "imported       source lab.csv" in done(show, "a.h5")


def test_a_table_without_a_header(run, done, lab, tmp_path):
    rows = (tmp_path / lab).read_text().splitlines()[1:]
    (tmp_path / "bare.csv").write_text("\n".join(rows))
    assert refused(run(main, "bare.csv"), "name all 4 columns with --columns")
    assert "states         q, p" in done(main, "bare.csv", "--columns", "run,t,q,p")


def write_arrays(path):
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
def test_joined_arrays(run, done, ending, tmp_path):
    write_arrays(tmp_path / f"a.{ending}")
    done(main, f"a.{ending}", "-o", "b.h5", "--variable", "q,p")
    dataset = open_dataset("b.h5")
    assert dataset.system.components == ("q1", "q2", "p1", "p2")
    assert dataset.system.kind == "measured, symplectic"
    found = np.concatenate([dataset.states(group) for group in dataset.shapes])
    joined = np.concatenate([ARRAYS["q"], ARRAYS["p"]], axis=-1)
    np.testing.assert_array_equal(np.sort(found, axis=0), np.sort(joined, axis=0))
    refusal = run(main, f"a.{ending}", "-o", "c.h5")
    assert refused(refusal, "expected one array of states")
    refusal = run(main, f"a.{ending}", "-o", "c.h5", "--variable", "q,v")
    assert refused(refusal, "has no variable 'v'")


@pytest.mark.parametrize(
    "options",
    [
        ["ring.npz", "--pairs", "first,second", "--columns", ",".join(NAMES)],
        ["ring.csv", "--pairs", "before,after"],
        ["in.csv", "out.csv"],
    ],
)
def test_pairs_in_arrays_columns_and_files(options, done, tmp_path):
    np.savez(tmp_path / "ring.npz", first=BEFORE, second=AFTER, dt=0.25)
    table(NAMES, BEFORE).to_csv(tmp_path / "in.csv", index=False)
    table(NAMES, AFTER).to_csv(tmp_path / "out.csv", index=False)
    both = table([*NAMES, *(f"{n}_after" for n in NAMES)], BEFORE, AFTER)
    both.to_csv(tmp_path / "ring.csv", index=False)
    output = done(main, *options, "--step", "0.25", "-o", "a.h5")
    assert "taken for symplectic" in output
    dataset = vp.open_dataset(tmp_path / "a.h5")
    np.testing.assert_array_equal(pairs_of(dataset), expected())
    assert dataset.step == 0.25


@pytest.mark.thorough
def test_pairs_of_a_ring_become_a_symplectic_map(done, tmp_path):
    before = np.random.default_rng(0).uniform(-0.5, 0.5, (400, 2))
    kicked = before[:, 1] - 0.1 * before[:, 0] ** 2
    turn = np.array([[0.8, 0.6], [-0.6, 0.8]])
    np.savez("ring.npz", a=before, b=np.stack([before[:, 0], kicked], axis=1) @ turn.T)
    done(main, "ring.npz", "--pairs", "a,b", "--columns", "x,px")
    # couplings and a generating function both reach rounding: which is taken is left to the search
    done(train, "ring.h5", "-o", "turn.safetensors")
    model = vp.load(tmp_path / "turn.safetensors")
    assert model.structure.is_symplectic
    pairs = vp.open_dataset("ring.h5").states("test")
    states = vp.rollout(model, pairs[:, :1], 1)
    assert np.abs(np.asarray(states)[:, -1] - pairs[:, 1]).max() < 1e-12
