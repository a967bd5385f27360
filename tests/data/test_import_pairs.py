"""Pairs of states before and after a map: files, lost particles, structure."""

import numpy as np
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vpintegrator as vp
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


def expected(order=(0, 2, 1, 3), before=BEFORE, after=AFTER):
    both = np.stack([before, after], axis=1)[..., list(order)]
    return both[np.argsort(both[:, 0, 0])]


def table(names, *states):
    return pandas.DataFrame(dict(zip(names, np.concatenate(states, axis=1).T, strict=True)))


def import_pairs(folder, source=(BEFORE, AFTER), pairs=True, **options):
    return vp.import_dataset(source, folder / "a.h5", pairs=pairs, **options)


def test_arrays_become_trajectories_of_two_states(tmp_path):
    dataset = import_pairs(tmp_path, components=NAMES)
    assert dataset.system.components == ("x", "y", "px", "py")
    assert dataset.system.is_canonical and dataset.step == 1
    np.testing.assert_array_equal(pairs_of(dataset), expected())
    notes = read_toml(dataset.recipe, "")["imported"]["notes"]
    assert any("stored as x, y, px, py" in text for text in notes)


def test_sources_of_both(tmp_path):
    arrays = {"first": BEFORE, "second": AFTER}
    np.savez(tmp_path / "a.npz", **arrays)
    together = table([f"{n}_in" for n in NAMES] + [f"{n}_out" for n in NAMES], BEFORE, AFTER)
    together.insert(0, "id", np.arange(40))
    together.to_csv(tmp_path / "a.csv")
    table(NAMES, BEFORE).to_csv(tmp_path / "in.csv", index=False)
    table(NAMES[::-1], AFTER[:, ::-1]).to_csv(tmp_path / "out.csv", index=False)
    named = ("first", "second")
    for source, pairs in (
        (tmp_path / "a.npz", named),
        (arrays, named),
        (tmp_path / "a.csv", ("in", "out")),
        (together, ("_in", "_out")),
        ((tmp_path / "in.csv", tmp_path / "out.csv"), True),
    ):
        dataset = import_pairs(tmp_path, source, pairs, components=NAMES, overwrite=True)
        np.testing.assert_array_equal(pairs_of(dataset), expected())


def test_lost_particles_are_left_out_and_counted(tmp_path):
    after = AFTER.copy()
    after[[3, 7], 1], after[9] = np.nan, np.inf
    dataset = import_pairs(tmp_path, (BEFORE, after), step=0.5)
    kept = np.isfinite(after).all(axis=1)
    np.testing.assert_array_equal(pairs_of(dataset), expected(range(4), BEFORE[kept], AFTER[kept]))
    assert dataset.step == 0.5 and "3 pairs of 40" in dataset.recipe
    with pytest.raises(InputError, match="are too few"):
        import_pairs(tmp_path, (BEFORE, np.full((40, 4), np.nan)), overwrite=True)


def test_pairs_that_follow_one_another_are_one_trajectory(tmp_path):
    dataset = import_pairs(tmp_path, (BEFORE[:-1], BEFORE[1:]))
    joined = np.concatenate([dataset.states(group)[0] for group in dataset.shapes])
    np.testing.assert_array_equal(joined, BEFORE)


@pytest.mark.parametrize(
    ("structure", "model"),
    [("symplectic", "spff"), ("volume", "vpff"), ("none", "resnet"), (None, "vpff")],
)
def test_structure_is_claimed_and_decides_the_model(structure, model, tmp_path):
    dataset = import_pairs(tmp_path, structure=structure)
    assert vp.models.suited(dataset.system) == model
    assert vp.open_dataset(dataset.path).system.is_canonical == (structure == "symplectic")


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


@pytest.mark.parametrize(
    ("source", "pairs", "options", "message"),
    [
        ((BEFORE, AFTER[:20]), True, {}, r"found \(1, 40, 4\) before and \(1, 20, 4\) after"),
        ((BEFORE[:6], AFTER[:6]), True, {"components": ["x"]}, "1 components are named"),
        ((BEFORE[:8].T, AFTER[:8].T), True, {}, "more pairs than components"),
        ((BEFORE, AFTER), True, {"structure": "hamiltonian"}, "structure must be one of symplect"),
        ((BEFORE, AFTER), True, {"times": [0.0, 1.0]}, "pairs of states have no times"),
        ({"a": BEFORE}, ("a", "b"), {}, "has no variable 'b'"),
        ({"a": BEFORE}, "ab", {}, "pairs are two names or endings"),
        ({"a": BEFORE}, True, {}, "two arrays or files, before and after"),
        (table(NAMES, BEFORE), ("in", "out"), {}, "expected columns such as x and x_out"),
    ],
)
def test_mistakes(source, pairs, options, message, tmp_path):
    with pytest.raises(InputError, match=message):
        import_pairs(tmp_path, source, pairs, **options)
