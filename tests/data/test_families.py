"""Datasets in which every trajectory has its own step and parameters."""

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vpintegrator as vp
from vpintegrator.data import generate, load_recipe, open_dataset
from vpintegrator.data.dataset_file import digests, fingerprint
from vpintegrator.data.generation.plan import ShardPlan
from vpintegrator.dynamics import solve
from vpintegrator.errors import InputError
from vpintegrator.storage.hdf5 import write_attributes

VARY = {"step": [0.05, 0.4], "I1": [1.5, 2.5], "I2": {"low": 0.5, "high": 1.5, "log": True}}
# an implicit method has stacks of one, so that few trajectories make several shards
SHARDED = {"method": "LSODA", "count": 150, "steps": 2, "rtol": 1e-8, "atol": 1e-8, "vary": VARY}
FOLLOWING = """
state = ["z1", "z2", "z3"]
[parameters]
I1 = 2.0
I2 = 1.0
I3 = "2/3*I1"
[vector_field]
z1 = "(1/I3 - 1/I2)*z2*z3"
z2 = "(1/I1 - 1/I3)*z3*z1"
z3 = "(1/I2 - 1/I1)*z1*z2"
[invariants]
energy = "(z1**2/I1 + z2**2/I2 + z3**2/I3)/2"
[initial_conditions]
distribution = "sphere"
radius = "I1"
[defaults]
step = 0.1
"""
DRIVEN = """
time = "t"
state = ["q", "p"]
[parameters]
a = 0.5
[vector_field]
q = "p"
p = "-q + a*cos(t)"
[initial_conditions]
distribution = "uniform"
low = -1
high = "a"
t = [0, "a"]
"""


@pytest.fixture(scope="module")
def body(tmp_path_factory):
    path = tmp_path_factory.mktemp("family") / "body.h5"
    return generate("rigid-body", path, count=60, steps=5, vary=VARY)


@pytest.mark.thorough
@settings(max_examples=8, deadline=None)
@given(
    source=st.sampled_from(["rigid-body", "kepler", FOLLOWING, DRIVEN]),
    low=st.floats(0.02, 0.1),
    width=st.floats(0.01, 0.3),
    seed=st.integers(0, 2**32),
)
def test_a_trajectory_is_that_of_its_step_and_parameters(
    tmp_path_factory, source, low, width, seed
):
    parameter = {"kepler": "k", DRIVEN: "a"}.get(source, "I1")
    vary = {"step": [low, low + width], parameter: [0.8, 1.2]}
    path = tmp_path_factory.mktemp("one") / "a.h5"
    dataset = generate(source, path, count=8, steps=4, vary=vary, seed=seed)
    assert list(dataset.varied) == ["step", parameter]
    for group in dataset.shapes:
        conditions, states = dataset.conditions(group), dataset.states(group)
        for (step, value), trajectory in zip(conditions, states, strict=True):
            system = vp.load_system(source, **{parameter: value})
            alone = solve(system, trajectory[:1], step * np.arange(5))[0]
            np.testing.assert_allclose(trajectory, alone, rtol=1e-10, atol=1e-10)
    assert max(dataset.accuracy["invariant_drift"].values(), default=0) < 1e-11
    assert dataset.accuracy["estimated_error"] < 1e-10


def test_the_dataset_says_what_varies(body):
    assert body.is_family
    assert body.varied == {"step": (0.05, 0.4), "I1": (1.5, 2.5), "I2": (0.5, 1.5)}
    conditions = body.conditions("train")
    assert conditions.shape == (46, 3) and conditions.dtype == np.float64
    np.testing.assert_array_equal(body.conditions("train", slice(3, 9)), conditions[3:9])
    for column, (low, high) in zip(conditions.T, body.varied.values(), strict=True):
        assert low <= column.min() and column.max() <= high
    with pytest.raises(InputError, match=r"own step, from 0\.05 to 0\.4: take"):
        _ = body.step
    assert "step 0.05 to 0.4, I1 1.5 to 2.5" in repr(body)
    assert "5 steps of 0.05 to 0.4 each, I1" in body.description
    np.testing.assert_array_equal(body.times("train"), np.arange(6))
    assert body.system.parameters["I1"] == 2
    with pytest.raises(InputError, match="no group"):
        body.conditions("all")


def test_initial_states_belong_to_their_parameters(tmp_path):
    dataset = generate("pendulum", tmp_path / "a.h5", count=40, steps=1, vary={"g": [0.2, 5]})
    g, states = dataset.conditions("train")[:, 0], dataset.states("train")[:, 0]
    energy = states[:, 1] ** 2 / 2 - g * np.cos(states[:, 0])
    assert (energy <= 0.9 * g).all() and (np.abs(states[:, 1]) <= 2 * np.sqrt(g)).all()
    assert (energy[g > 4] > 1).any()
    dataset = generate(FOLLOWING, tmp_path / "b.h5", count=20, steps=1, vary={"I1": [1, 3]})
    norms = np.linalg.norm(dataset.states("train")[:, 0], axis=1)
    np.testing.assert_allclose(norms, dataset.conditions("train")[:, 0])
    dataset = generate(DRIVEN, tmp_path / "c.h5", step=0.1, count=40, steps=1, vary={"a": [1, 9]})
    a, states = dataset.conditions("train")[:, 0], dataset.states("train")[:, 0]
    assert (states[:, :2] <= a[:, None]).all() and states[:, :2].max() > 2
    assert (states[:, 2] <= a).all() and states[:, 2].max() > 2


def test_every_group_covers_the_ranges_evenly(body):
    for group in ("train", "test"):
        conditions = body.conditions(group)
        parts = (conditions[:, :2] - [0.05, 1.5]) / [0.35, 1.0]
        logarithms = np.log(conditions[:, 2:] / 0.5) / np.log(3)
        cells = np.floor(np.hstack([parts, logarithms]) * len(conditions)).astype(int)
        assert all(sorted(column) == list(range(len(conditions))) for column in cells.T)


def test_the_recipe_makes_the_same_again(body, tmp_path):
    again = generate(body.recipe, tmp_path / "again.h5")
    assert again.fingerprint == body.fingerprint
    assert load_recipe(body.recipe).text == body.recipe
    other = generate("rigid-body", tmp_path / "b.h5", count=60, steps=5, vary=VARY, seed=9)
    assert not np.array_equal(other.conditions("train"), body.conditions("train"))
    known = {group: digests(body.states(group)) for group in body.shapes}
    values = {group: body.conditions(group) for group in body.shapes}
    assert fingerprint(known, body.attributes["step"], values) == body.fingerprint
    values["train"] = values["train"] + 1e-9
    assert fingerprint(known, body.attributes["step"], values) != body.fingerprint


@pytest.mark.thorough
@pytest.mark.parametrize("split", ["trajectory", "time"])
def test_shards_and_workers_change_nothing(split, tmp_path):
    options = {**SHARDED, "split": {"by": split}}
    options["steps"] = 5
    assert ShardPlan.of(load_recipe("rigid-body", **options)).shards > 2
    one = generate("rigid-body", tmp_path / "one.h5", **options)
    two = generate("rigid-body", tmp_path / "two.h5", workers=2, **options)
    view = generate("rigid-body", tmp_path / "view.h5", single_file=False, **options)
    assert one.path.read_bytes() == two.path.read_bytes()
    assert view.fingerprint == one.fingerprint
    for group in one.shapes:
        np.testing.assert_array_equal(view.conditions(group), one.conditions(group))
        assert view.states(group).tobytes() == one.states(group).tobytes()


def test_a_solution_that_ends_is_told_in_steps(tmp_path):
    text = 'state = ["x"]\n[vector_field]\nx = "x**2"\n[initial_conditions]\n'
    text += 'distribution = "uniform"\nlow = 1\nhigh = 2\n'
    with pytest.raises(InputError, match="cannot be continued beyond t/step = "):
        generate(text, tmp_path / "a.h5", steps=20, count=5, vary={"step": [0.1, 0.2]})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f["train/step"].__setitem__(0, np.nan), "the step of a trajectory is no posit"),
        (lambda f: f.__delitem__("test/parameter_I1"), "there is no dataset 'parameter_I1'"),
        (
            lambda f: write_attributes(f, {"varied": '{"step": [1, "a"]}'}),
            "expected the least and the largest",
        ),
        (lambda f: write_attributes(f, {"varied": '{"$I1": [1, 2]}'}), "'[$]I1' is no valid name"),
    ],
)
def test_a_damaged_file_is_told(body, tmp_path, change, message):
    path = tmp_path / "a.h5"
    path.write_bytes(body.path.read_bytes())
    with h5py.File(path, "r+") as file:
        change(file)
    with pytest.raises(InputError, match=message):
        open_dataset(path).conditions("train")
