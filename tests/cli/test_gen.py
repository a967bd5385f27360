"""vp-gen: flows, maps by formula, return maps, trajectories with parameters of their own."""

import json

import pytest

from tests.cli.conftest import refused
from tests.dynamics.test_discrete import KICKED
from vpintegrator.cli.gen import main
from vpintegrator.cli.show import main as show
from vpintegrator.data import open_dataset

SYSTEM = """
title = "Duffing oscillator"
state = ["q", "p"]
hamiltonian = "p**2/2 - q**2/2 + b*q**4/4"
[parameters]
b = 1
[initial_conditions]
distribution = "uniform"
low = -1
high = 1
[defaults]
step = 0.1
steps = 9
"""
SMALL = ("--count", "9", "--steps", "2")


def test_a_flow(done):
    output = done(main, "rigid-body", "--count", "30", "--steps", "5", "-p", "I1=3")
    assert "23 train, 2 validation, 5 test; 5 steps of 0.2" in output
    assert "squared momentum" in output and len(output.splitlines()) <= 8
    assert open_dataset("rigid-body.h5").parameters["I1"] == 3


@pytest.mark.thorough
def test_each_trajectory_has_its_own_step_and_parameters(done):
    vary = ["--vary", "step=0.05:0.4", "--vary", "I1=1.5:2.5:log"]
    output = done(main, "rigid-body", "--count", "30", "--steps", "5", *vary)
    assert "5 steps of 0.05 to 0.4 each, I1 1.5 to 2.5" in output
    dataset = open_dataset("rigid-body.h5")
    assert dataset.varied == {"step": (0.05, 0.4), "I1": (1.5, 2.5)}
    assert "log = true" in dataset.recipe
    output = done(show, "rigid-body.h5")
    for text in ("from 0.05 to 0.4", "I1 from 1.5 to 2.5", "train from 0 to 5"):
        assert text in output
    found = json.loads(done(show, "rigid-body.h5", "--json", "--quiet"))
    assert found["varied"] == {"step": [0.05, 0.4], "I1": [1.5, 2.5]}


def test_a_file_and_a_length_of_ones_own(done, tmp_path):
    (tmp_path / "duffing.toml").write_text(SYSTEM)
    done(main, "duffing.toml", "--count", "20", "-v")
    assert open_dataset("duffing.h5").system.title == "Duffing oscillator"
    done(main, "toda", "-p", "n=5", *SMALL)
    assert open_dataset("toda.h5").system.dim == 10


def test_seed_0_is_not_seed_1(done):
    for seed in (0, 1):
        done(main, "pendulum", *SMALL, "--seed", seed, "-o", f"{seed}.h5")
    first, second = open_dataset("0.h5"), open_dataset("1.h5")
    assert (first.seed, second.seed) == (0, 1)
    assert first.fingerprint != second.fingerprint


def test_maps_by_formula(run, done, tmp_path):
    (tmp_path / "kicked.toml").write_text(KICKED)
    assert "exact but for rounding" in done(main, "kicked.toml", "--count", "20")
    assert "iterated by formula" in done(show, "kicked.h5")
    assert refused(run(main, "kicked.toml", "--step", "0.1", "-o", "a.h5"), "one iteration")
    shown = done(show, "kicked.toml")
    for text in ("symplectic map", "stage 2:", "ρ M ρ M = 1", "DMᵀ J DM = J", "steps 5"):
        assert text in shown


def test_return_maps_by_section(done):
    done(main, "henon-heiles", "--section", "-q[0] = 0", *SMALL, "-p", "energy=0.1")
    dataset = open_dataset("henon-heiles-map.h5")
    assert dataset.parameters == {"energy": 0.1}
    assert dataset.system.equations.returns.sign == -1
    assert "q[0] = 0 downwards; canonical" in done(show, "henon-heiles-map.h5")
    energies = ("--vary", "energy=0.02:0.12")
    done(main, "henon-heiles", "--section", "q[0] = 0", *SMALL, *energies, "-o", "family.h5")
    assert open_dataset("family.h5").varied == {"energy": (0.02, 0.12)}


@pytest.mark.parametrize(
    ("name", "step", "crossings", "components"),
    [
        ("forced-duffing", "period", 1, ("q", "p")),
        ("forced-duffing", "2*period", 2, ("q", "p")),
        ("field-lines-two", "period", 1, ("Z", "u")),
    ],
)
def test_stroboscopic_maps(done, name, step, crossings, components):
    done(main, name, "--step", step, *SMALL)
    system = open_dataset(f"{name}-map.h5").system
    assert system.equations.returns.crossings == crossings and system.components == components


def test_observed_data(done, run):
    options = ["--observe", "q1, far = sqrt(q[0]**2 + q[1]**2)", "--noise", "1e-3"]
    output = done(main, "henon-heiles", *options, *SMALL)
    shown = "q1, far = sqrt(q[0]**2 + q[1]**2); noise 0.001 of the spread"
    assert f"observed       {shown}" in output
    dataset = open_dataset("henon-heiles.h5")
    assert dataset.system.components == ("q1", "far") and dataset.system.kind == "measured"
    assert shown in done(show, "henon-heiles.h5")
    hidden = ["rigid-body", "--vary", "I1=1.5:2.5", "--vary", "I2=0.5:1", "--hide", "I1", *SMALL]
    assert "I1 hidden" in done(main, *hidden) and [*open_dataset("rigid-body.h5").varied] == ["I2"]
    for given, message in (
        (["pendulum", "--observe", "angle"], "unknown name 'angle'"),
        (["pendulum", "--observe", "log(q)"], "is not finite at time"),
        (["rigid-body", "--hide", "I1"], "I1 does not vary; give it a range: --vary I1=LOW:HIGH"),
        (["pendulum", "--noise", "-1"], "noise = -1.0 must be 0 or more"),
        (["pendulum", "--observe", "q", "--steps", "1"], "of 2 steps or more"),
    ):
        assert refused(run(main, *given, "-o", "none.h5"), message)
