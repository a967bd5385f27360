"""vp-import: tables, arrays, pairs, and the way of measured data through all commands."""

import re

import numpy as np
import pytest

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
    assert "lab: 1 orbit to t = 3.9, step 0.1 (reference: the states given)" in output
    report = open_rollout("lab-rollout.h5")
    np.testing.assert_array_equal(report.reference, open_dataset("lab.h5").states("test"))
    assert run(plot, "lab-rollout.h5", "-o", "f", "--format", "png").exit_code == 0
    for options, message in (
        (["--against", "rk4"], "rk4 needs the equations of lab"),
        (["--reference", "solution"], "--reference solution needs the equations"),
        (["--initial", "1,0", "--steps", "5"], "starts from measured ones"),
    ):
        assert refused(run(rollout, "lab-vpt.safetensors", *options, "-o", "b.h5"), message)
    vp.import_dataset("lab.csv", "lab.h5", seed=5, overwrite=True)
    refusal = run(rollout, "lab-vpt.safetensors", "-o", "b.h5")
    assert refused(refusal, "lab.h5 has changed since lab-vpt was trained")
    (tmp_path / "lab.h5").unlink()
    assert refused(run(rollout, "lab-vpt.safetensors", "-o", "b.h5"), "is not found at")


def test_columns_name_the_components_of_an_array(done, tmp_path):
    np.save(tmp_path / "lab.npy", np.stack([np.cos(TIMES), -np.sin(TIMES)], -1)[None].repeat(3, 0))
    assert "states         q, p" in done(main, "lab.npy", "--step", "0.1", "--columns", "q,p")


def test_what_the_import_assumed_is_printed_and_kept(done, lab):
    output = done(main, lab, "--system", "harmonic-oscillator", "-p", "k=1", "-o", "a.h5")
    (note,) = re.findall(r"note +(one step of the equations misses.*)", output)
    assert float(re.findall(r"by (\S+) of", note)[0]) < 1e-7
    assert note[:60] in done(show, "a.h5")
    assert "imported       source lab.csv" in done(show, "a.h5")


@pytest.mark.parametrize(
    "options",
    [["ring.npz", "--pairs", "first,second", "--columns", ",".join(NAMES)], ["in.csv", "out.csv"]],
)
def test_pairs_in_arrays_and_files(options, done, tmp_path):
    np.savez(tmp_path / "ring.npz", first=BEFORE, second=AFTER, dt=0.25)
    table(NAMES, BEFORE).to_csv(tmp_path / "in.csv", index=False)
    table(NAMES, AFTER).to_csv(tmp_path / "out.csv", index=False)
    assert "taken for symplectic" in done(main, *options, "--step", "0.25", "-o", "a.h5")
    dataset = vp.open_dataset(tmp_path / "a.h5")
    np.testing.assert_array_equal(pairs_of(dataset), expected())
    assert dataset.step == 0.25


@pytest.mark.parametrize("names", ["q", "u,v", "q1,q2"])
def test_states_that_claim_no_structure_are_trained_with_any_window(names, done, tmp_path):
    t, count = 0.3 * np.arange(30), len(names.split(","))
    lines = [f"run,time,{names}"]
    for k in range(8):
        states = [(0.5 + 0.1 * k) * np.exp(-0.1 * t) * np.cos(t + 0.4 * n) for n in range(count)]
        lines += [",".join(map(repr, [k, *row])) for row in np.stack([t, *states], 1).tolist()]
    (tmp_path / "q.csv").write_text("\n".join(lines) + "\n")
    done(main, "q.csv", "--structure", "none")
    for window in ("1", "2"):
        output = done(train, "q.h5", "--window", window, "--epochs", "3", "--overwrite")
        assert "no structure is kept" in output and "written to q.safetensors" in output
        assert vp.load(tmp_path / "q.safetensors").structure.form == "none"
