"""Discrete Lagrangians: the equations against their definition, the form, reversibility, angles."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.nn.laws import assert_close, sample
from tests.nn.test_generating_function import value
from vpintegrator.errors import InputError
from vpintegrator.nn import DiscreteLagrangian, GeneratingFunction
from vpintegrator.nn.implicit import unrolled


def of_box(size, layer):
    """A layer whose functions have this box; angles are measured in radians."""
    layer.function.box_scale.fill_(size)
    layer.function.box_scale[layer.angles] = 1.0
    return layer


def lagrangian(n=2, degree=4, damped=False, scale=1e-3, seed=0, **options):
    """A discrete Lagrangian of random terms, beside free motion."""
    torch.manual_seed(seed)
    layer = of_box(
        0.8, DiscreteLagrangian(GeneratingFunction(2 * n, degree, **options), damped=damped)
    )
    with torch.no_grad():
        for c in layer.coefficients():
            c.copy_(scale * torch.randn_like(c))
    return layer


def wide(n, **options):
    return of_box(10.5, DiscreteLagrangian(GeneratingFunction(2 * n, 3, **options)))


EXAMPLES = {
    "discrete Lagrangian": lambda d, T: wide(d),
    "discrete Lagrangian of angles": lambda d, T: wide(d, periodic=[0]),
}


def action(layer, q, r):
    """L(q, r) by its definition."""
    v = r - q
    for i in layer.angles:
        v = torch.cat(
            [v[:i], torch.remainder(v[i : i + 1] + math.pi, 2 * math.pi) - math.pi, v[i + 1 :]]
        )
    return v @ v / 2 + value(layer.function, torch.cat([q + v / 2, v]))


CASES = {
    "plain": {},
    "one": {"n": 1, "degree": 6},
    "angles": {"periodic": [0, 1], "degree": 3},
    "three": {"n": 3, "degree": 3},
}


@pytest.mark.parametrize("case", CASES)
@settings(max_examples=10)
@given(seed=st.integers(0, 10**6))
def test_the_next_position_makes_the_action_stationary(case, seed):
    layer = lagrangian(**CASES[case], seed=seed)
    q, r = 0.3 * sample(2, layer.dim, seed=seed)
    s = layer(torch.stack([q, r]))[1].detach()
    slope = torch.func.grad(lambda x: action(layer, q, x) + action(layer, x, s))(r)
    assert_close(slope, torch.zeros_like(slope), 1e-13)


@pytest.mark.parametrize("case", CASES)
@settings(max_examples=10)
@given(seed=st.integers(0, 10**6))
def test_the_form_of_its_own_is_kept(case, seed):
    """At random coefficients near regular ones: D^T Omega D = Omega, Omega by differentiation."""
    layer = lagrangian(**CASES[case], seed=seed)
    n, window = layer.dim, 0.3 * sample(2, layer.dim, seed=seed)

    def form(window):
        q, r = window
        by_second = torch.func.jacrev(torch.func.grad(lambda q, r: action(layer, q, r)), 1)(q, r)
        assert_close(by_second, layer.mixed_derivative(window.flatten()), 1e-12)
        zero = torch.zeros(n, n).double()
        return torch.cat([torch.cat([zero, -by_second], 1), torch.cat([by_second.mT, zero], 1)])

    D = torch.func.jacrev(layer)(window).reshape(2 * n, 2 * n)
    image = layer(window).detach()
    assert_close(D.mT @ form(image) @ D, form(window), 1e-12)
    assert_close(layer.inverse(image), window, 1e-13)


def test_free_motion_without_a_function():
    layer = DiscreteLagrangian(GeneratingFunction(4, 3))
    q, r = sample(2, 2)
    assert_close(layer(torch.stack([q, r])), torch.stack([r, 2 * r - q]), 1e-15)
    assert_close(layer.momentum(torch.cat([q, r])), r - q, 1e-15)


def test_momenta_of_both_sides_are_equal_and_give_the_window():
    layer = lagrangian()
    window = 0.3 * sample(2, 2)
    image = layer(window).detach()
    x = layer.variables(image.flatten())
    before = -layer._slopes(x, layer.coefficients())[0]
    momentum = layer.momentum(window.flatten()).detach()
    assert_close(before.detach(), momentum, 1e-14)
    assert_close(layer.before(window[1], momentum), window[0], 1e-14)


def test_equations_are_linear_in_the_coefficients():
    """At windows that are no orbit: the residual is matrix c minus right side."""
    for damped in (False, True):
        layer = lagrangian(damped=damped, scale=0.1)
        q = 0.3 * sample(5, 3, 2)
        z, image = q[:, :2].flatten(1), q[:, 1:].flatten(1)
        matrix, right = layer.equations(z, image)
        c = torch.cat([part.detach() for part in layer.coefficients()])
        residual = layer.residual(z, image, layer.coefficients()).detach()
        assert_close(matrix @ c - right, residual[:, 2:], 1e-13)
        assert_close(residual[:, :2], torch.zeros(5, 2).double(), 0)


def test_the_normalisation_is_the_mean_trace_of_the_mixed_derivative():
    layer = lagrangian(scale=0.1)
    z = 0.3 * sample(7, 4)
    c = torch.cat([part.detach() for part in layer.coefficients()])
    trace = layer.mixed_derivative(z).diagonal(dim1=-2, dim2=-1).sum(-1).mean().detach()
    assert_close((layer.normalisation(z) @ c)[0], trace + 2, 1e-12)


def test_linear_damping_takes_momentum():
    """Of free motion with Gamma = g: v' (1 + g / 2) = v (1 - g / 2)."""
    layer = DiscreteLagrangian(GeneratingFunction(2, 2), damped=True)
    with torch.no_grad():
        layer.damping_entries.fill_(0.2)
    image = layer(torch.tensor([[1.0], [1.5]]).double()).detach()
    assert_close(image[1] - image[0], torch.tensor([0.5 * 0.9 / 1.1]).double(), 1e-15)
    again = layer.inverse(image).detach()
    assert_close(again, torch.tensor([[1.0], [1.5]]).double(), 1e-14)


def test_displacements_of_angles_are_the_shortest_way():
    layer = lagrangian(n=1, degree=4, periodic=[0])
    q = torch.tensor([3.1, 3.2]).double()
    wrapped = q - torch.tensor([0.0, 2 * math.pi]).double()
    plain, other = (layer(w[:, None]).detach()[1, 0] for w in (q, wrapped))
    assert_close(other, plain - 2 * math.pi, 1e-14)


def test_unrolled_programs_give_the_same():
    layer = lagrangian()
    windows = 0.3 * sample(20, 2, 2)
    layer.settle(windows.flatten(1))
    with unrolled():
        unrolled_image = layer(windows)
    assert_close(unrolled_image, layer(windows), 1e-14)


def test_longer_windows_are_shifted():
    layer = lagrangian()
    windows = 0.3 * sample(4, 3, 2)
    image = layer(windows)
    assert_close(image[:, :2], windows[:, 1:], 0)
    assert_close(image[:, 1:], layer(windows[:, 1:]), 0)


def test_functions_and_windows_that_do_not_fit():
    with pytest.raises(InputError, match="even number"):
        DiscreteLagrangian(GeneratingFunction(3, 2))
    with pytest.raises(InputError, match="axes"):
        lagrangian()(sample(1, 2))
