"""Elementary Hamiltonians: values by nested derivatives, derivatives, units, limits."""

import pytest
import torch

from tests.nn.laws import assert_close, assert_near, sample
from vpintegrator.nn import ElementaryHamiltonians

PENDULUM = "z[1]**2/2 - cos(z[0])"
FOUR = "(z[2]**2 + z[3]**2/(1 + z[0]**2))/2 + z[0]*z[1]**2 + exp(z[1])*z[2]/5"
DRIVEN = "z[1]**2/2 - cos(z[0])*(1 + z[2]**2/3)"
SYSTEMS = {
    "pendulum": (PENDULUM, {"size": 2}),
    "four": (FOUR, {"size": 4}),
    "driven": (DRIVEN, {"size": 2, "parameters": 1, "explicit_time": True}),
    "family": (f"z[2]*({PENDULUM})", {"size": 2, "parameters": 1}),
}


def value(name, x):
    """H as a function of tensors."""
    z = x.unbind(-1)
    if name == "four":
        kinetic = (z[2] ** 2 + z[3] ** 2 / (1 + z[0] ** 2)) / 2
        return kinetic + z[0] * z[1] ** 2 + z[1].exp() * z[2] / 5
    if name == "driven":
        return z[1] ** 2 / 2 - z[0].cos() * (1 + z[2] ** 2 / 3)
    return (z[1] ** 2 / 2 - z[0].cos()) * (z[2] if name == "family" else 1.0)


def expected_terms(name, size):
    """The five terms by nested forward derivatives of PyTorch, functions of a state."""

    def H(x):
        return value(name, x)

    def field(x):
        slope, half = torch.func.grad(H)(x), size // 2
        still = torch.zeros_like(x[size:]) + (1.0 if name == "driven" else 0.0)
        return torch.cat([slope[half:size], -slope[:half], still])

    def along(function, direction):
        return lambda x: torch.func.jvp(function, (x,), (direction,))[1]

    def term(*arguments):
        def derived(x):
            f = field(x)
            change = torch.func.jvp(field, (x,), (f,))[1]
            function = H
            for argument in arguments:
                function = along(function, f if argument == "f" else change)
            return function(x)

        return derived

    return [H, term("f", "f"), term(*"ffff"), term("f", "f", "f'f"), term("f'f", "f'f")]


@pytest.mark.parametrize("name", SYSTEMS)
def test_terms_are_nested_derivatives(name):
    text, sizes = SYSTEMS[name]
    E = ElementaryHamiltonians(text, **sizes)
    size, dim = E.size, E.size + E.parameter_count
    shift, scale = sample(dim, seed=1), sample(dim, seed=2).abs() + 0.5
    E.set_units(shift, scale)
    for x in sample(3, dim):
        found = E.gradients(x)
        for k, term in enumerate(expected_terms(name, size)):
            expected = torch.func.grad(lambda y, f=term: f(y * scale + shift))(x)[:size]
            assert_near(found[k], expected, 1e-10)


@pytest.mark.parametrize("name", SYSTEMS)
def test_hessians_are_derivatives_of_gradients(name):
    text, sizes = SYSTEMS[name]
    E = ElementaryHamiltonians(text, **sizes)
    x = sample(5, E.size + E.parameter_count)
    E.adapt(x)
    c = sample(5, seed=3)
    gradient, hessian = E.leading(x, c)
    assert_close(gradient, E.gradients(x)[:, 0] * c[0], 1e-14)
    for k, found in enumerate([hessian, E.hessian(x, c, 1)]):
        expected = torch.stack(
            [torch.func.jacrev(lambda y, k=k: E.gradients(y)[k] * c[k])(y)[:, : E.size] for y in x]
        )
        assert_close(found, expected, 1e-11)
    assert_close(E.gradient(x, c), (E.gradients(x) * c[:, None]).sum(1), 1e-14)


def test_terms_of_a_family_are_those_of_a_member():
    E = ElementaryHamiltonians(f"z[2]*({PENDULUM})", 2, parameters=1)
    E.set_units(torch.tensor([0.1, 0.2, 0.0]), torch.tensor([1.0, 2.0, 0.5]))
    x = sample(4, 3)
    E.adapt(x)
    E.coefficients.data = sample(5, seed=1)
    member = E.at(torch.tensor([0.6]).double())
    extended = torch.cat([x[:, :2], torch.full((4, 1), 0.6)], 1)
    assert_close(member.gradient(x[:, :2]), E.gradient(extended), 1e-13)
    at_rest = torch.cat([x[:, :2], torch.zeros(4, 1)], 1)
    assert bool((E.gradient(at_rest) == 0).all())
