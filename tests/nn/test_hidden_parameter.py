"""Maps with a hidden parameter: the window tells it, and orbits of the map keep it."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from vpintegrator import nn
from vpintegrator.errors import InputError

EXAMPLES = {"hidden parameter": lambda d, T: nn.HiddenParameterLayer(d, 2, 2, window=T)}


def random_layer(seed, dim=2, window=3, **options):
    """A layer of random weights, in which the parameter matters at all states."""
    generator = torch.Generator().manual_seed(seed)
    layer = nn.HiddenParameterLayer(dim, 3, 3, window=window, dtype=torch.float64, **options)
    weights = 0.02 * torch.randn(layer.coefficients.shape, generator=generator).double()
    weights[1, 0] += 0.2 * torch.ones(dim)
    with torch.no_grad():
        layer.coefficients.copy_(weights)
    return layer


def orbit(layer, theta, steps=30, start=0.1):
    """States (state, dim) of the map at a parameter."""
    states = [torch.full((layer.dim,), start, dtype=torch.float64)]
    powers = theta ** torch.arange(4.0).double()
    for _ in range(steps):
        parts = layer.parts(states[-1])  # (power, dim)
        states.append(states[-1] + (powers[:, None] * parts).sum(0))
    return torch.stack(states)


@settings(max_examples=30)
@given(st.integers(0, 1000), st.floats(-1, 1), st.integers(2, 6))
def test_a_rollout_keeps_the_parameter(seed, theta, window):
    """At any weights: the iterated map of windows is the map at the parameter of the first one."""
    layer = random_layer(seed, window=window)
    with torch.no_grad():
        states = orbit(layer, theta, 12)
        windows = states[:window]
        for step in range(12 - window):
            np.testing.assert_allclose(layer.parameter(windows).numpy(), theta, atol=1e-7)
            windows = layer(windows)
            np.testing.assert_allclose(windows[-1], states[window + step], atol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_of_any_window_the_parameter_misses_least(seed):
    layer = random_layer(seed)
    noise = 0.01 * torch.randn(3, 2, generator=torch.Generator().manual_seed(seed)).double()
    with torch.no_grad():
        window = orbit(layer, 0.3, 2) + noise
        parts, changes = layer.parts(window[:-1]).numpy(), layer.changes(window).numpy()

    def misses(theta):
        return ((np.einsum("k,tkd->td", theta ** np.arange(4), parts) - changes) ** 2).sum()

    least = minimize_scalar(misses, bounds=(-1.25, 1.25), method="bounded", options={"xatol": 1e-9})
    found = float(layer.parameter(window).detach())
    assert misses(found) <= misses(least.x) * (1 + 1e-9)
    assert found == pytest.approx(least.x, abs=1e-4)


def test_angles_go_by_the_shorter_way():
    layer = random_layer(0, dim=1, periodic=[0])
    with torch.no_grad():
        window = orbit(layer, 0.4, 2)
        turned = window + torch.tensor([[0.0], [2 * torch.pi], [-2 * torch.pi]])
        np.testing.assert_allclose(layer.parameter(turned), layer.parameter(window), atol=1e-12)


def test_where_nothing_moves_the_parameter_is_finite():
    layer = nn.HiddenParameterLayer(2, dtype=torch.float64)
    assert torch.isfinite(layer(torch.zeros(5, 2, 2).double())).all()


def test_a_window_of_one_state_tells_nothing():
    with pytest.raises(InputError, match="window"):
        nn.HiddenParameterLayer(2, window=1)
