"""PolynomialInvariants: their derivatives, and maps that are projected to keep them."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import vpintegrator as vp
from vpintegrator import nn
from vpintegrator.compiled import CompiledModel
from vpintegrator.errors import InputError
from vpintegrator.nn.layer import Layer


class Turned(Layer):
    """A turn of the first two components, projected to keep an invariant."""

    def __init__(self, dim):
        super().__init__()
        self.angle = torch.nn.Parameter(torch.tensor(0.1))
        self.invariants = nn.PolynomialInvariants(dim, 1, 2)
        self.invariants.coefficients[1:] = 1.0

    def forward(self, z):
        c, s = torch.cos(self.angle), torch.sin(self.angle)
        x, y = z[..., 0], z[..., 1]
        moved = torch.cat([torch.stack([c * x - s * y, s * x + c * y], -1), z[..., 2:]], -1)
        return self.invariants.kept(z, moved)


EXAMPLES = {"invariants": lambda d, T: Turned(d)}


def random_invariants(dim, count, degree, window, seed, periodic=()):
    layer = nn.PolynomialInvariants(
        dim, count, degree, window=window, periodic=periodic, dtype=torch.float64
    )
    generator = torch.Generator().manual_seed(seed)
    layer.coefficients.copy_(torch.randn(layer.coefficients.shape, generator=generator))
    return layer


@pytest.mark.parametrize(("window", "periodic"), [(1, ()), (1, (0,)), (3, ()), (2, (1,))])
def test_derivatives_by_the_newest_state(window, periodic):
    layer = random_invariants(2, 1, 3, window, 0, periodic)
    torch.manual_seed(1)
    states = 0.3 * torch.randn(5, window, 2, dtype=torch.float64)

    def values(newest, older):
        whole = torch.cat([older, newest[None]])
        return layer.values(whole[0] if window == 1 else whole)

    expected = [torch.func.jacrev(values)(each[-1], each[:-1]).mT for each in states]
    _, slopes = layer.jet(states[:, 0] if window == 1 else states)
    torch.testing.assert_close(slopes, torch.stack(expected))


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 5), st.integers(1, 3), st.integers(1, 3), st.integers(0, 1000), st.booleans())
def test_the_iterated_map_keeps_them(dim, window, degree, seed, several):
    """At random weights, whatever the map, where gradients do not vanish."""
    count = min(2, dim - 1) if several else 1
    torch.manual_seed(seed)
    model = vp.models.ResidualNetwork(dim=dim, window=window, prediction_window=1)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(0.3)
    # linear functions and small others: their gradients stay away from zero and from each other
    layer = random_invariants(dim, count, degree, window, seed)
    orders = layer.orders
    layer.coefficients.mul_(0.02)
    for k in range(count):
        place = (orders.sum(1) == 1) & (orders[:, k] == 1)
        layer.coefficients[place, k] = 3.0
    model.keep(layer)
    start = 0.3 * np.random.default_rng(seed).normal(size=(4, window, dim))
    states = vp.rollout(model, start, 40, compiled=False)
    windows = torch.from_numpy(states).unfold(1, window, 1).mT  # (orbit, time, window, dim)
    values = layer(windows)
    assert float((values - values[:, :1]).abs().max()) < 1e-11
    assert not model.structure.keeps_volume


@pytest.mark.parametrize("window", [1, 2])
def test_files_and_machine_code_keep_them(tmp_path, window):
    torch.manual_seed(0)
    model = vp.models.PolynomialMap(dim=3, degree=2, window=window)
    model.set_normalisation([0.1, 0.2, 0.3], [2.0, 1.0, 0.5])
    with torch.no_grad():
        model.core.coefficients.copy_(0.01 * torch.randn_like(model.core.coefficients))
    model.keep(random_invariants(3, 2, 2, window, 1))
    path = tmp_path / "model.safetensors"
    vp.save(model, path)
    again = vp.load(path)
    start = np.random.default_rng(0).normal(size=(5, window, 3))
    np.testing.assert_array_equal(again.map(start), model.map(start))
    assert "keeps 2 invariants" in again.remark
    states, _ = CompiledModel(model, 5).predict(start, 4)
    np.testing.assert_allclose(states, np.concatenate([*model.advance(start, 4)], 1), atol=1e-11)
    again.set_normalisation(0.0, 1.0)
    assert again.invariants is None


def test_what_cannot_keep_them():
    layer = random_invariants(2, 1, 2, 2, 0)
    with pytest.raises(InputError, match="one new state in a call"):
        vp.models.ResidualNetwork(dim=2, window=3).keep(layer)
    with pytest.raises(InputError, match="read 2 states of 2 components, the model has 1 of 2"):
        vp.models.ResidualNetwork(dim=2).keep(layer)
    with pytest.raises(InputError, match="count"):
        nn.PolynomialInvariants(2, 2)


def test_a_start_where_gradients_vanish_stays_finite():
    circle = nn.PolynomialInvariants(2, 1, 2, dtype=torch.float64)
    circle.coefficients[circle.orders.amax(1) == 2] = 1.0
    rest = torch.zeros(1, 1, 2, dtype=torch.float64)
    assert math.isfinite(float(circle.kept(rest, rest).abs().max()))
