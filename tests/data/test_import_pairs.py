"""Pairs of states before and after a map: lost particles, structure, questions."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vpintegrator as vp
from vpintegrator.data.importing.arrays import Arrays
from vpintegrator.data.importing.questions import questions
from vpintegrator.dynamics.conjugate import conjugate_pairs
from vpintegrator.errors import InputError
from vpintegrator.storage.toml import read_toml

BEFORE = np.random.default_rng(0).normal(size=(40, 4))
AFTER = BEFORE @ np.array([[0, -1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, -1, 0.0]])
NAMES = ["x", "px", "y", "py"]


def pairs_of(dataset):
    """All pairs, sorted by the first component before."""
    found = np.concatenate([dataset.states(group) for group in dataset.shapes])
    return found[np.argsort(found[:, 0, 0])]


def guessed(dataset, key="guessed"):
    return read_toml(dataset.recipe, "")["imported"][key]


def expected(order=(0, 2, 1, 3), before=BEFORE, after=AFTER):
    both = np.stack([before, after], axis=1)[..., list(order)]
    return both[np.argsort(both[:, 0, 0])]


def test_arrays_become_trajectories_of_two_states(tmp_path):
    dataset = vp.import_pairs(BEFORE, AFTER, tmp_path / "a.h5", components=NAMES)
    assert dataset.system.components == ("x", "y", "px", "py")
    assert dataset.system.is_canonical
    assert dataset.step == 1
    np.testing.assert_array_equal(pairs_of(dataset), expected())
    assert any("stored as x, y, px, py" in text for text in guessed(dataset, "structure"))


def test_lost_particles_are_left_out_and_counted(tmp_path):
    after = AFTER.copy()
    after[[3, 7], 1], after[9] = np.nan, np.inf
    dataset = vp.import_pairs(BEFORE, after, tmp_path / "a.h5", step=0.5)
    kept = np.isfinite(after).all(axis=1)
    np.testing.assert_array_equal(pairs_of(dataset), expected(range(4), BEFORE[kept], AFTER[kept]))
    assert dataset.step == 0.5
    assert "lost particles): 3 pairs of 40" in guessed(dataset)[0]
    with pytest.raises(InputError, match="0 of 40 pairs are complete"):
        vp.import_pairs(BEFORE, np.full((40, 4), np.nan), tmp_path / "b.h5")
    assert not (tmp_path / "b.h5").exists()


@pytest.mark.parametrize(
    ("structure", "model"),
    [("symplectic", "spff"), ("volume-preserving", "vpff"), ("none", "resnet"), (None, "vpff")],
)
def test_structure_is_claimed_and_decides_the_model(structure, model, tmp_path):
    dataset = vp.import_pairs(BEFORE, AFTER, tmp_path / "a.h5", structure=structure)
    assert vp.models.suited(dataset.system) == model
    assert vp.open_dataset(dataset.path).system.is_canonical == (structure == "symplectic")
    again = vp.load_system(dataset.system.text)
    assert again.structure == dataset.system.structure


def test_structure_does_not_contradict_states_or_systems(tmp_path):
    with pytest.raises(InputError, match="positions and as many momenta, but there are 3"):
        vp.import_dataset(np.zeros((6, 5, 3)), tmp_path / "a.h5", step=1, structure="symplectic")
    with pytest.raises(InputError, match="structure must be one of symplectic"):
        vp.import_pairs(BEFORE, AFTER, tmp_path / "a.h5", structure="hamiltonian")
    with pytest.raises(InputError, match="structure is claimed of states without a system"):
        vp.import_dataset(
            np.zeros((6, 5, 2)), tmp_path / "a.h5", step=1, system="pendulum", structure="none"
        )
    text = 'measured = true\nsymplectic = true\nstate = ["a", "b", "c"]\n'
    with pytest.raises(InputError, match="positions and then as many momenta"):
        vp.load_system(text)
    text = 'measured = true\nsymplectic = true\ndivergence_free = false\nstate = ["a", "b"]\n'
    with pytest.raises(InputError, match="symplectic maps preserve volume"):
        vp.load_system(text)


@given(dof=st.integers(1, 4), seed=st.integers(0, 99), style=st.sampled_from("qxn"))
def test_names_tell_positions_from_momenta_in_any_order(dof, seed, style):
    positions = [f"q{k}" if style == "q" else "xyzw"[k] for k in range(dof)]
    momenta = [
        f"p{name[1:] if style == 'q' else '_' * (style == 'n') + name}" for name in positions
    ]
    names = positions + momenta
    order = np.random.default_rng(seed).permutation(2 * dof)
    shuffled = [names[k] for k in order]
    pairs = conjugate_pairs(shuffled)
    assert pairs is not None
    told = {shuffled[q]: shuffled[p] for q, p in pairs}
    assert told == dict(zip(positions, momenta, strict=True))


def test_a_trajectory_of_unrelated_rows_is_questioned(tmp_path):
    rows = np.random.default_rng(1).uniform(-1, 1, (400, 4))
    with pytest.warns(UserWarning, match="are these pairs of states before and after"):
        dataset = vp.import_dataset(rows, tmp_path / "a.h5", step=1)
    assert any("--pairs" in text for text in guessed(dataset))


def test_trajectories_are_not_questioned():
    angle = np.arange(400) * np.pi / 2 * 1.01  # a quarter turn: jumps are as large as the spread
    turning = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    kicked = np.zeros((400, 2))
    kicked[0] = 0.3, 1.2
    for n in range(399):  # a chaotic map
        p = kicked[n, 1] + 0.9 * np.sin(kicked[n, 0])
        kicked[n + 1] = np.mod(kicked[n, 0] + p, 2 * np.pi), p
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for states in (turning, kicked):
            assert questions(Arrays(states[None])) == []
