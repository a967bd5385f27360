"""Generation and the file: accuracy, format, determinism, mistakes."""

import pickle
import warnings

import numpy as np
import pytest

import vpintegrator as vp
from vpintegrator.data import generate, list_recipes, open_dataset
from vpintegrator.data.opening import without_broken_structure
from vpintegrator.errors import InputError


@pytest.fixture(scope="module")
def body(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "body.h5"
    return generate("rigid-body", path, count=60, steps=20)


@pytest.mark.parametrize("name", list_recipes())
def test_every_recipe_generates_accurately(name, tmp_path):
    dataset = generate(name, tmp_path / "a.h5", count=40, steps=50)
    assert max(dataset.accuracy["invariant_drift"].values(), default=0) < 1e-10
    assert dataset.accuracy["estimated_error"] < 1e-10
    assert sum(shape[0] for shape in dataset.shapes.values()) == 40


def test_states_of_a_classical_method(tmp_path):
    """Each step solves the equation of the implicit midpoint rule, and the recipe says so."""
    path, method = tmp_path / "midpoint.h5", "implicit-midpoint"
    dataset = generate("rigid-body-circles", path, count=20, steps=10, method=method)
    before, after = dataset.states("train")[:, :-1], dataset.states("train")[:, 1:]
    x, y, z = np.moveaxis((before + after) / 2, -1, 0)
    rates = np.stack([y * z / 2, -x * z, x * y / 2], axis=-1)
    assert np.abs(after - before - 0.2 * rates).max() < 1e-15
    assert set(dataset.accuracy) == {"invariant_drift"}  # an exact map, and no solution
    assert dataset.accuracy["invariant_drift"]["energy"] < 1e-14
    assert dataset.attributes["solver"] == method and "rtol" not in dataset.attributes
    again = generate(dataset.recipe, tmp_path / "again.h5")
    assert again.fingerprint == dataset.fingerprint


def test_a_classical_method_that_cannot_go_on(tmp_path):
    with pytest.raises(InputError, match=r"explicit-euler cannot continue .* shorter step"):
        generate("duffing", tmp_path / "a.h5", count=5, step=50.0, method="explicit-euler")


def test_the_same_recipe_gives_the_same_bytes(body, tmp_path):
    assert body.states("train").shape == body.shapes["train"] == (46, 21, 3)
    np.testing.assert_allclose(np.linalg.norm(body.states("test"), axis=-1), 1, rtol=1e-13)
    assert open_dataset(body.path).fingerprint == body.fingerprint
    again = generate("rigid-body", tmp_path / "again.h5", count=60, steps=20)
    assert again.path.read_bytes() == body.path.read_bytes()
    other = generate("rigid-body", tmp_path / "other.h5", count=60, steps=20, seed=9)
    assert other.fingerprint != body.fingerprint


def test_a_failure_leaves_nothing_behind(tmp_path):
    text = """
    state = ["x"]
    [vector_field]
    x = "x**2"
    [initial_conditions]
    distribution = "uniform"
    low = 1
    high = 2
    """
    with pytest.raises(InputError, match="cannot be continued beyond t = "):
        generate(text, tmp_path / "a.h5", step=0.1, steps=50, count=10)
    with pytest.raises(InputError, match=r"suggests no initial states; add a table"):
        generate('state = ["x"]\n[vector_field]\nx = "1"', tmp_path / "a.h5", step=0.1)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InputError, match=r"folder .* does not exist"):
        generate("pendulum", tmp_path / "no" / "a.h5")


CHAOS = """
title = "Double pendulum, far from its equilibrium"
system = "double-pendulum"
step = 1.0
steps = 100
[trajectories]
train = 4
validation = 1
test = 1
[initial_conditions]
distribution = "uniform"
low = [2.0, 2.0, 0.0, 0.0]
high = [3.0, 3.0, 0.0, 0.0]
"""


@pytest.mark.parametrize("memory", [None, 4000])
def test_states_end_where_chaos_has_lost_the_solution(memory, tmp_path, monkeypatch):
    """In one piece or in shards, in the file, its recipe and where it is resumed."""
    if memory:
        monkeypatch.setattr("vpintegrator.data.generation.plan._MEMORY", memory)
    path = tmp_path / "chaos.h5"
    with pytest.warns(UserWarning, match=r"trajectories end after \d+ of 100 steps, at t = "):
        dataset = vp.generate(CHAOS, path)
    steps = dataset.shapes["train"][1] - 1
    assert 10 < steps < 90
    assert f"steps = {steps}\n" in dataset.recipe
    states = np.concatenate([dataset.states(group) for group in dataset.shapes])
    times = 1.0 * np.arange(steps + 1)
    exact = vp.solve(dataset.system, states[:, 0], times, "DOP853", 2.3e-14, 1e-15)
    assert np.linalg.norm(exact - states, axis=-1).max() < 0.1 * np.linalg.norm(states.std((0, 1)))
    assert dataset.accuracy["estimated_error"] < 0.05
    written = path.stat().st_mtime_ns
    vp.generate(CHAOS, path, resume=True)
    assert path.stat().st_mtime_ns == written


def test_regular_motion_does_not_end_early(tmp_path, recwarn):
    dataset = vp.generate("pendulum", tmp_path / "a.h5", count=20, steps=300)
    assert dataset.shapes["train"][1] == 301
    assert not [warning for warning in recwarn if "trajectories end" in str(warning.message)]


DAMPED = """
state = ["x", "y"]
vector_field = { x = "y", y = "-x - y*where(x > 4, 0.5, 0)" }
reversing_symmetry = [{ y = "-y" }]
invariants = { radius = "x**2 + y**2" }
initial_conditions = { distribution = "uniform", low = -1, high = 1 }
defaults = { step = 0.2, steps = 10 }
"""


def test_structure_that_the_data_break_is_told_and_left_out(tmp_path):
    """States outside of the domain in which the claims of the system hold."""
    far = {"distribution": "uniform", "low": 3, "high": 5}
    with pytest.warns(UserWarning, match=r"invariants drift .* radius by"):
        dataset = vp.generate(
            DAMPED, tmp_path / "far.h5", count=20, initial_conditions=far, rtol=1e-9, atol=1e-9
        )
    assert dataset.system.divergence_free
    with pytest.warns(UserWarning, match=r"leave out: reversing symmetry 1 .*; form, divergence"):
        system = without_broken_structure(dataset).system
    assert not system.divergence_free and not system.reversing_symmetries
    assert not pickle.loads(pickle.dumps(system)).divergence_free
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        near = vp.generate(DAMPED, tmp_path / "near.h5", count=20)
        assert without_broken_structure(near) is near
