"""The reference solution and its certificate."""

import numpy as np

from tests.rollout.systems import initial, system
from vpintegrator.rollout import solve_reference


def test_reference_and_its_certificate():
    s, z = system("harmonic-oscillator"), initial("harmonic-oscillator", 4)
    times = np.arange(0, 100.1, 0.5)
    seen = []
    reference = solve_reference(s, z, times, progress=lambda *call: seen.append(call))
    q, p = z[:, :1], z[:, 1:]
    exact = np.stack(
        [q * np.cos(times) + p * np.sin(times), p * np.cos(times) - q * np.sin(times)], -1
    )
    error = np.abs(reference.states - exact).max(axis=(1, 2))
    assert error.max() < 1e-11
    assert (error < 2 * reference.error + 1e-14).all()
    assert reference.error.max() < 1e-9
    assert seen[-1][0] == "reference"
    assert seen[-1][1] == seen[-1][2]
