"""Errors of trajectories and when they pass a threshold."""

import math
from dataclasses import replace

import numpy as np
import pytest

import vpintegrator as vp
from tests.rollout.systems import ensemble_of
from vpintegrator.rollout.diagnostics import root_mean_square_error
from vpintegrator.rollout.diagnostics.diagnostic import Ensemble
from vpintegrator.rollout.diagnostics.trajectory_error import Divergence, TrajectoryError


def ensemble(reference, threshold):
    """Orbits of a map of one's own beside a reference (time, trajectory, dim)."""
    times, trajectories, dim = reference.shape
    names = [f"z{k}" for k in range(dim)]
    rates = "".join(f"{name} = '0'\n" for name in names)
    text = f"state = {names}\n[vector_field]\n{rates}"
    given = {"system": vp.System(text), "step": 0.1, "steps": times - 1}
    heun = ensemble_of(None, "heun", initial=np.zeros((trajectories, dim)), **given)
    plan = replace(heun.plan, reference=reference, threshold=threshold)
    return Ensemble("heun", heun.map, plan, np.zeros((trajectories, 1, dim)))


def test_errors_of_a_trajectory():
    reference = np.zeros((3, 3, 2))
    states = reference.copy()
    states[0, 1] = [3.0, 4.0]
    states[1, 2] = np.nan
    reference[2, 1:] = np.nan
    error = root_mean_square_error(states, reference)
    assert error[0] == pytest.approx(math.sqrt(25 / 6))
    assert error[1] == math.inf
    divergence = Divergence(ensemble(reference.transpose(1, 0, 2), 1.0))
    divergence.observe(0, states)
    assert np.array_equal(divergence.failed, [-1, 2, -1])


def test_what_is_unknown_passes_no_threshold():
    distance = np.array(
        [[0, 0.2, 0.05, 0.3], [0, 0.1, 0.1, 0.1], [0, 0, np.inf, np.inf], [0, np.nan, np.nan, 1]]
    )
    reference = np.zeros((4, 4, 1))
    reference[1:3, 3] = np.nan
    error = TrajectoryError(ensemble(reference, 0.1))
    error.observe(0, distance[..., None])
    assert np.array_equal(error.index, [1, -1, 2, 3])
