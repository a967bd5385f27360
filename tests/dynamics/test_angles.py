"""Angles that were reduced to one period are continued over their jumps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vpintegrator.data import import_dataset
from vpintegrator.dynamics.angles import unwrapped

TURN = 2 * np.pi


@given(st.integers(0, 10**6), st.floats(0.5, 700), st.booleans())
def test_what_was_wrapped_comes_back_but_for_full_turns(seed, period, gaps):
    generator = np.random.default_rng(seed)
    steps = generator.uniform(-0.2, 0.2, size=(4, 60, 2)) * period
    states = np.cumsum(steps, axis=1)
    wrapped = states.copy()
    wrapped[..., 0] = (states[..., 0] + period / 2) % period - period / 2
    if gaps:  # of one time, over which an angle changes by less than half a period
        wrapped[:, generator.integers(0, 15) :: 16] = np.nan
    found, continued = unwrapped(wrapped, {0: period})
    turns = (found - states)[..., 0] / period
    seen = np.isfinite(turns[0])
    np.testing.assert_allclose(
        turns[:, seen], np.round(turns[:, seen][:, :1]) + 0 * turns[:, seen], atol=1e-9
    )
    np.testing.assert_array_equal(found[..., 1], wrapped[..., 1])
    jumped = (np.abs(np.diff(wrapped[:, seen, 0], axis=1)) > period / 2).any()
    assert continued == ([0] if jumped else [])


@pytest.mark.parametrize(
    "angles",
    [
        np.linspace(0, 30, 40),  # over several turns: never reduced to one
        np.linspace(0, 30, 6),  # the same in large steps
        np.array([0.0, 3.5, 0.2, 3.0]),  # a jump or large steps: nobody can tell
        np.full(5, np.nan),
        np.array([1.0, 1.5, 2.0]),
    ],
)
def test_what_may_be_continuous_is_left_as_it_is(angles):
    states = angles[None, :, None]
    found, continued = unwrapped(states, {0: TURN})
    assert continued == []
    np.testing.assert_array_equal(found, states)


def test_imported_angles_do_not_jump(tmp_path):
    """Two rotating pendulums, seen by an instrument that reduces angles to (-pi, pi]."""
    text = 'measured = true\nstate = ["w", "q"]\nperiodic = { q = "2*pi" }\n'
    time = 0.1 * np.arange(80)
    true = np.array([0.5, 2.0])[:, None] * time
    table = {"q": np.angle(np.exp(1j * true)), "w": np.cos(true), "dt": 0.1}
    dataset = import_dataset(table, tmp_path / "a.h5", variable="q,w", system=text)
    states = np.concatenate([dataset.states(g) for g in ("train", "validation", "test")], axis=1)
    np.testing.assert_allclose(states[..., 1], true, atol=1e-12)
    np.testing.assert_allclose(states[..., 0], np.cos(true), atol=1e-12)
    assert "angles that jumped by their period are continued over it: q" in dataset.recipe
