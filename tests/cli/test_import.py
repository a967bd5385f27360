"""vp-gen --from and --inspect, and the way of measured data through all commands."""

import re

import numpy as np
import pytest

import vpintegrator as vp
from tests.cli.conftest import refused
from vpintegrator.cli.gen import main
from vpintegrator.cli.plot import main as plot
from vpintegrator.cli.rollout import main as rollout
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
    (tmp_path / "measured.toml").write_text('measured = true\nstate = ["q", "p"]\n')
    return "lab.csv"


@pytest.mark.thorough
def test_measured_data_go_all_the_way(run, lab, tmp_path):
    result = run(main, "--from", lab, "--title", "Laboratory")
    assert result.exit_code == 0, result.output
    assert "equations not known: what needs them is left out" in result.output
    assert "6 train, 1 validation, 1 test; 39 steps of 0.1 each" in result.output
    assert "taken for symplectic" in result.output
    options = ("--model", "vpt", "--window", "2", "--width", "4", "--epochs", "8")
    result = run(train, "lab.h5", *options)
    assert result.exit_code == 0, result.output
    # the dataset is the one of the training, the reference what was measured
    result = run(rollout, "laboratory-vpt.safetensors")
    assert result.exit_code == 0, result.output
    assert "Laboratory: 1 orbit to t = 3.9, step 0.1 (beside the states given)" in result.output
    assert "the equations of laboratory are not known" in result.output
    report = open_rollout("laboratory-rollout.h5")
    np.testing.assert_array_equal(report.reference, open_dataset("lab.h5").states("test"))
    assert run(plot, "laboratory-rollout.h5", "-o", "f", "--format", "png").exit_code == 0
    for options, message in (
        (["--against", "rk4"], "rk4 needs the equations of laboratory"),
        (["--reference", "solution"], "--reference solution needs the equations"),
        (["--initial", "1,0", "--steps", "5"], "reads 2 states, and no equations"),
        (["--initial", "1,0", "--reference", "dataset"], "leave out --initial"),
    ):
        assert refused(run(rollout, "laboratory-vpt.safetensors", *options, "-o", "b.h5"), message)
    assert run(main, "--from", lab, "--seed", "5", "-o", "lab.h5", "--overwrite").exit_code == 0
    refusal = run(rollout, "laboratory-vpt.safetensors", "-o", "b.h5")
    assert refused(refusal, "lab.h5 has changed since laboratory-vpt was trained")
    (tmp_path / "lab.h5").unlink()
    refusal = run(rollout, "laboratory-vpt.safetensors", "-o", "b.h5")
    assert refused(refusal, "trained on is not found at lab.h5")
    assert not (tmp_path / "b.h5").exists()


def test_a_system_behind_the_data(run, lab):
    result = run(main, "--from", lab, "--system", "harmonic-oscillator", "-o", "a.h5")
    assert result.exit_code == 0, result.output
    assert open_dataset("a.h5").system.name == "harmonic-oscillator"
    result = run(train, "a.h5", "--model", "vpff", "--epochs", "3", "-o", "a.safetensors")
    assert result.exit_code == 0, result.output
    options = ["--dataset", "a.h5", "--reference", "dataset", "-o", "b.h5"]
    result = run(rollout, "a.safetensors", "--against", "rk4", *options)
    assert result.exit_code == 0, result.output
    report = open_rollout("b.h5")
    assert list(report.runs) == ["a", "rk4"]
    assert report.is_reference_given
    assert report.summary("rk4").error < 1e-5  # the table's nine digits, and RK4's own error


def test_options_of_the_recipe(run):
    options = ["--split", "time", "--fractions", "0.5,0.25,0.25", "--steps", "39"]
    result = run(main, "pendulum", "--count", "3", *options, "-o", "b.h5")
    assert "3, cut in time: 20 train, 10 validation, 10 test" in result.output


@pytest.mark.thorough
def test_inspect(run, lab, tmp_path):
    run(main, "pendulum", "--count", "30", "-o", "a.h5")
    result = run(main, "--inspect", "a.h5")
    assert result.exit_code == 0, result.output
    for text in (
        "Mathematical pendulum (pendulum); m = 1, l = 1, g = 1",
        "train          23 trajectories, 11 times; t = 0 to 2",
        "DOP853, rtol 1e-12, atol 1e-12",
        "error about",
        "all observed and finite",
        "q from",
        "energy: train",
        "vpintegrator-dataset, version 1",
        "preview        a.png",
    ):
        assert text in result.output, text
    assert (tmp_path / "a.png").stat().st_size > 10_000
    (tmp_path / "a.png").write_bytes(b"mine")
    result = run(main, "--inspect", "a.h5")  # says all of it again, and leaves the picture alone
    assert result.exit_code == 0 and "energy: train" in result.output
    assert "preview        a.png exists already; " in result.output
    assert "--overwrite" in result.output
    assert (tmp_path / "a.png").read_bytes() == b"mine"
    run(main, "--inspect", "a.h5", "--overwrite")
    assert (tmp_path / "a.png").stat().st_size > 10_000
    run(main, "--from", lab)
    result = run(main, "--inspect", "lab.h5", "-o", "look.pdf")
    assert "imported from  lab.csv, q,p (seed 0)" in result.output
    assert "its equations are not known" in result.output
    assert (tmp_path / "look.pdf").exists()
    assert refused(run(main, "--inspect", "lab.h5", "-o", "look.pdf"), "--overwrite")


def test_ranges_are_those_of_the_components_named(run):
    states = np.random.default_rng(0).uniform(-1, 1, (5, 6, 14))
    states[..., 0] += 100
    vp.import_dataset(states, "a.h5", step=0.1)
    lines = [line.split() for line in run(main, "--inspect", "a.h5").output.splitlines()]
    rest = states[..., 12:]
    assert ["and", "2", "more,", f"{rest.min():.6g}", "to", f"{rest.max():.6g}"] in lines
    first = states[..., 0]
    assert f"from {first.min():.6g} to {first.max():.6g}".split() in [line[-4:] for line in lines]


def test_inspect_other_files(run):
    run(main, "pendulum", "--count", "30", "-o", "a.h5")
    run(train, "a.h5", "--model", "vpff", "--epochs", "2", "-o", "a.safetensors")
    run(rollout, "a.safetensors", "--steps", "5", "-o", "b.h5")
    result = run(main, "--inspect", "a.safetensors")
    assert result.exit_code == 0, result.output
    for text in ("vpff", "parameters", "volume-preserving", "pendulum", "step", "test error"):
        assert text in result.output
    result = run(main, "--inspect", "b.h5")
    assert result.exit_code == 0, result.output
    for text in ("Rollout: Mathematical pendulum", "a (learned)", "RMSE"):
        assert text in result.output
    assert refused(run(main, "--inspect", "b.h5", "-o", "x.png"), "drawn of a dataset")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--from", "none.csv"], "there is no file none.csv"),
        (["--from", "lab.csv", "pendulum"], "leave out 'pendulum'"),
        (["--from", "lab.csv", "--count", "5"], "--count is not for --from"),
        (["--from", "lab.csv", "--workers", "2"], "not for --from"),
        (["--from", "lab.csv", "--step", "0.3"], "states need equal steps"),
        (["--from", "lab.csv", "--vary", "l=1:2"], "--vary is not for --from"),
        (["--from", "lab.csv", "--parameter-columns", "l"], "no column 'l' (it has: trajectory"),
        (["--from", "lab.csv", "--parameter-columns", "q", "--variable", "p"], "q changes in row"),
        (["--from", "lab.csv", "--step", "-1"], "step = -1.0 must be positive"),
        (["--from", "lab.csv", "--variable", "r"], "no column 'r' (it has: trajectory, time"),
        (["--from", "lab.csv", "--system", "rigid-body"], "rigid-body has 3 components"),
        (["--from", "lab.csv", "-p", "g=1"], "give one with --system"),
        (["--from", "lab.csv", "--fractions", "1,2"], "expected three parts"),
        (["--from", "lab.csv", "--fractions", "a"], "expected numbers"),
        (["--from", "lab.csv", "-o", "lab.csv", "--overwrite"], "give another name"),
        (["--from", "lab.csv", "-o", "no/a.h5"], "the folder no does not exist"),
        (["measured.toml"], "integrating needs the equations of measured, which are not known"),
        (["pendulum", "--variable", "x"], "--variable is an option of --from"),
        (["pendulum", "--system", "x"], "--system is an option of --from"),
        (["pendulum", "--split", "time", "--steps", "2"], "too few"),
        (["--inspect", "lab.csv"], "lab.csv"),
        (["--inspect", "none.h5"], "there is no file none.h5"),
        (["--inspect", "."], "is a folder"),
        (["pendulum", "--step", "0"], "step: expected a positive number, found 0.0"),
        (["pendulum", "--rtol", "0"], "rtol: expected a positive number, found 0.0"),
        (["--inspect", "a.h5", "pendulum"], "leave out 'pendulum'"),
    ],
)
def test_mistakes(run, tmp_path, lab, arguments, message):
    before = (tmp_path / lab).read_bytes()
    assert refused(run(main, *arguments), message)
    assert sorted(path.name for path in tmp_path.iterdir()) == [lab, "measured.toml"]
    assert (tmp_path / lab).read_bytes() == before


def test_what_the_import_assumed_is_printed_and_kept(run, lab):
    options = ["--from", lab, "--system", "harmonic-oscillator", "-p", "k=1"]
    said = run(main, *options, "-o", "a.h5")
    assert said.exit_code == 0, said.output
    (note,) = re.findall(r"note +(one step of the equations misses.*)", said.output)
    miss = float(re.findall(r"by (\S+) of", note)[0])
    assert miss < 1e-7
    found = run(main, "--inspect", "a.h5", "--overwrite")
    assert note[:60] in found.output


def test_a_table_without_a_header(run, lab, tmp_path):
    rows = (tmp_path / lab).read_text().splitlines()[1:]
    (tmp_path / "bare.csv").write_text("\n".join(rows))
    assert refused(run(main, "--from", "bare.csv"), "name them with --columns")
    result = run(main, "--from", "bare.csv", "--columns", "run,t,q,p")
    assert result.exit_code == 0, result.output
    assert "states         q, p" in result.output
