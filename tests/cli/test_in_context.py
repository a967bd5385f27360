"""Learning in context on the command line."""

import numpy as np
import pytest

import vpintegrator as vp
from vpintegrator.cli.rollout import main as rollout
from vpintegrator.cli.train import main as train


@pytest.fixture(scope="module")
def oscillators(tmp_path_factory):
    path = tmp_path_factory.mktemp("context") / "o.h5"
    vary = {"k": (0.7, 1.3), "m": (0.8, 1.2)}
    return vp.generate("harmonic-oscillator", path, count=150, steps=10, vary=vary)


@pytest.mark.thorough
def test_a_model_is_trained_and_rolled_out(run, oscillators):
    result = run(train, oscillators.path, "--model", "ict", "--window", "3", "-o", "a.safetensors")
    assert result.exit_code == 0, result.output
    assert "ict: symplectic" in result.output
    assert "next state from 2, 4, 8 states of a test trajectory" in result.output
    model = vp.load("a.safetensors")
    assert (model.name, model.window) == ("ict", 3)
    result = run(rollout, "a.safetensors", "--time", "5", "--against", "none", "-o", "r.h5")
    assert result.exit_code == 0, result.output
    found = vp.rollout.open_rollout("r.h5").runs["a"]
    assert found.root_mean_square_error.max() < 1e-3
    assert "symplectic" in found.structure
    assert found.volume["step"].largest < 1e-12


@pytest.mark.thorough
def test_constants_without_parameters(run, oscillators):
    options = ["--model", "ict", "--latent", "2", "--epochs", "2", "-o", "b.safetensors"]
    result = run(train, oscillators.path, *options, "-v")
    assert result.exit_code == 0, result.output
    assert "2 constants, degree" in result.output
    model = vp.load("b.safetensors")
    assert model.latent == 2
    result = run(train, oscillators.path, "--start", "b.safetensors")
    assert result.exit_code == 2 and "trained in one go" in result.output


@pytest.mark.thorough
def test_a_family_is_rolled_out_from_a_table_of_states(run, oscillators):
    options = ["--epochs", "4", "--no-verdict", "-o", "f.safetensors"]
    result = run(train, oscillators.path, "--model", "sgf", "--degree", "8", *options)
    assert result.exit_code == 0, result.output
    assert "parameters from 8 states (median): " in result.output
    states, true = oscillators.states("test")[0], oscillators.conditions("test")[0]
    rows = np.column_stack([oscillators.step * np.arange(11), states])[[0, 1, 3, 6]]
    np.savetxt("c.csv", rows, delimiter=",", header="t,q,p", comments="")
    more = ["--time", "5", "--against", "none", "-o", "s.h5"]
    result = run(rollout, "f.safetensors", "--context", "c.csv", *more)
    assert result.exit_code == 0, result.output
    assert "f: k = " in result.output
    report = vp.rollout.open_rollout("s.h5")
    assert report.system.parameters["k"] == pytest.approx(true[0], abs=1e-3)
    assert np.abs(report.runs["f"].states[0, 0] - states[6]).max() < 1e-12
    result = run(rollout, "f.safetensors", "--context", "c.csv", "--initial", "1,0", *more)
    assert result.exit_code == 2 and "--context holds the initial state" in result.output
