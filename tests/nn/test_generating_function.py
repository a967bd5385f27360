"""Generating functions: derivatives, boxes, symmetries, angles, parameters."""

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.nn.laws import assert_close, assert_near, sample
from vpintegrator.errors import InputError
from vpintegrator.nn import GeneratingFunction

FLIP = torch.diag(torch.tensor([1.0, 1, -1, -1])).double()
SWAP = torch.eye(4).double()[[1, 0, 3, 2]]
GROUP = torch.stack([torch.eye(4).double(), FLIP, SWAP, FLIP @ SWAP])

# an example of every option
FUNCTIONS = {
    "polynomials": {"size": 3, "degree": 5},
    "one function": {"size": 2, "degree": 1},
    "angles": {"size": 2, "degree": 4, "periodic": [0]},
    "linear in angles": {"size": 3, "degree": 3, "periodic": [0, 1], "differentiated": [0, 1]},
    "linear in a cyclic component": {"size": 3, "degree": 3, "periodic": [0]}
    | {"cyclic": [1], "differentiated": [1, 2]},
    "linear in an angle, rates": {"size": 2, "degree": 3, "periodic": [0], "differentiated": [0, 1]}
    | {"parameters": 2, "vanishing": [0]},
    "cyclic": {"size": 3, "degree": 4, "cyclic": [1]},
    "group": {"size": 4, "degree": 4, "group": GROUP},
    "signs": {"size": 4, "degree": 3, "group": (GROUP, torch.tensor([1.0, -1, 1, -1]).double())},
    "parameters": {"size": 2, "degree": 4, "parameters": 2},
    "weights": {"size": 3, "degree": 4, "weights": [0.5, 2, 1.3], "periodic": [2]},
    "vanishing": {"size": 2, "degree": 4, "parameters": 2, "vanishing": [1]},
}


def made(name, seed=0):
    torch.manual_seed(seed)
    S = GeneratingFunction(**FUNCTIONS[name], initial_scale=0.5)
    S.adapt(
        states(S, 200, 2) * torch.tensor([1.0, 2.0, 0.5, 1.5])[: S.size + S.parameter_count] + 0.3
    )
    return S


def states(S, count, seed=0):
    return sample(count, S.size + S.parameter_count, seed=seed)


def value(S, x):
    """The sum over terms, function by function, at one state."""
    u = [*((x - S.box_shift) / S.box_scale)]
    most = 4 * S.degree  # weights above a quarter
    tables = [kind.jet(v, most)[0] for v, kind in zip(u, S.terms.kinds, strict=True)]
    terms = [
        math.prod(table[i] for i, table in zip(e, tables, strict=True))
        for e in S.terms.chosen.tolist()
    ]
    return S.terms.factors[:, 0] * S.coefficients[S.terms.sources[:, 0]] @ torch.stack(terms)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_are_those_of_the_sum_over_terms(name):
    S = made(name)
    n = S.size
    for x in states(S, 3):
        gradient, hessian = S.gradient_and_hessian(x)
        by_value = torch.func.grad(lambda y: value(S, y))(x)[:n]
        assert_near(gradient, by_value)
        assert_close(S.gradient(x), gradient, 0)
        expected = torch.func.jacrev(S.gradient)(x)[:, :n]
        assert_near(hessian, expected)
        assert_close(hessian, hessian.mT, 0)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_features_are_the_derivatives_by_coefficients(name):
    S = made(name)
    x, n = states(S, 5), S.size
    orders = [*((i,) for i in range(n)), *((i, j) for i in range(n) for j in range(n))]
    features = S.features(x, orders)
    c = sample(S.coefficients.numel(), seed=3)
    for part, derivative in zip(features, S.partials(x, orders, c), strict=True):
        assert part.shape == (5, c.numel())
        assert_near(part @ c, derivative.expand(5))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_along_a_component_a_derivative_is_a_sum_of_functions(name):
    S = made(name)
    x = states(S, 5)
    for i, j in itertools.permutations(range(S.size), 2):
        if j in FUNCTIONS[name].get("cyclic", ()) or i in FUNCTIONS[name].get("cyclic", ()):
            continue
        weights = S.along(x, i, (j,))
        moved = x.clone()
        moved[:, i] += 0.7  # at any value of the component
        assert_close(S.along(moved, i, (j,)), weights, 0)
        functions = S.functions_of(i, moved[:, i], 2)
        expected = S.partials(moved, [(j,), (i, j)])
        for derived, reference in zip(functions, expected, strict=False):
            assert_near((weights * derived).sum(0).expand(5), reference)
        slopes = S.functions_of(i, moved[:, i], 1)[1]
        assert_close((slopes * S.along(x, i, ())).sum(0), S.partials(moved, [(i,)])[0], 1e-11)


@pytest.mark.parametrize("name", ["group", "signs"])
def test_the_function_has_the_symmetries_whatever_its_box_is_taken_from(name):
    S = made(name)
    signs = torch.ones(4).double() if name == "group" else FUNCTIONS[name]["group"][1]
    x = states(S, 4)
    for g, sign in zip(GROUP, signs, strict=True):
        assert_close(S.gradient(x @ g.mT), sign * S.gradient(x) @ g.mT, 1e-12)
    assert S.box_shift[0] == S.box_shift[1]
    assert bool((S.box_shift[2:] == 0).all())  # of those that change their sign
    assert S.box_scale[0] == S.box_scale[1] and S.box_scale[2] == S.box_scale[3]


@given(seed=st.integers(0, 999), shift=st.floats(-5, 5), size=st.floats(1e-3, 1e3))
def test_the_box_holds_the_states(seed, shift, size):
    S = GeneratingFunction(4, 2, group=GROUP)
    x = size * sample(20, 4, seed=seed) + shift
    S.adapt(x)
    assert float(((x - S.box_shift) / S.box_scale).abs().max()) <= 3 / 1.05 * (1 + 1e-12)
    other = GeneratingFunction(4, 2, group=GROUP)
    other.adapt_like(S)
    assert torch.equal(other.box_shift, S.box_shift)
    assert torch.equal(other.box_scale, S.box_scale)


def test_what_the_box_of_special_components_is():
    """Of an angle none, of a rate one about zero, of a constant component one of length one."""
    S = GeneratingFunction(3, 2, periodic=[0], parameters=2, vanishing=[1])
    x = sample(50, 5) + 7
    x[:, 1] = 4.0
    S.adapt(x)
    assert (S.box_shift[0], S.box_scale[0]) == (0, 1)
    assert (S.box_shift[1], S.box_scale[1]) == (4, 1)
    assert S.box_shift[4] == 0
    assert S.box_scale[4] == pytest.approx(1.05 / 3 * x[:, 4].max())
    gradient, hessian = S.gradient_and_hessian(x)
    assert gradient.isfinite().all() and hessian.isfinite().all()


@pytest.mark.parametrize(
    ("name", "shift", "zero"), [("angles", [2 * torch.pi, 0], []), ("cyclic", [0, 1, 0], [1])]
)
def test_gradients_are_periodic_and_without_cyclic_components(name, shift, zero):
    S = made(name)
    x = states(S, 5)
    assert_close(S.gradient(x + torch.tensor(shift, dtype=torch.float64)), S.gradient(x), 1e-12)
    assert ((S.gradient(x) == 0).all(0).nonzero().flatten()).tolist() == zero


@pytest.mark.parametrize(
    ("name", "shift", "by"),
    [
        ("linear in angles", [2 * torch.pi, -4 * torch.pi, 0], [0, 1]),
        ("linear in a cyclic component", [-2 * torch.pi, 0.7, 0], [1, 2]),
        ("linear in an angle, rates", [6 * torch.pi, 0, 0, 0], [0, 1]),
    ],
)
def test_terms_linear_in_an_angle_have_periodic_derivatives(name, shift, by):
    """Such a term depends on the angle itself, its derivatives do not."""
    S = made(name)
    x = states(S, 5)
    moved = x + torch.tensor(shift, dtype=torch.float64)
    orders = [*((i,) for i in by), tuple(by)]
    for derivative, same in zip(S.partials(x, orders), S.partials(moved, orders), strict=True):
        assert_close(same, derivative, 1e-12)
    differences = torch.stack([value(S, y) - value(S, z) for y, z in zip(moved, x, strict=True)])
    assert bool((differences.abs() > 1e-3).all())


@pytest.mark.parametrize("name", ["parameters", "vanishing", "linear in an angle, rates"])
def test_parameters_are_multiplied_out(name):
    S = made(name)
    x = states(S, 5)
    values = torch.tensor([0.4, -0.3]).double()
    x[:, 2:] = values
    if name == "vanishing":
        still = x.clone()
        still[:, 3] = 0.0
        assert bool((S.gradient(still) == 0).all())
    found = S.at(values)
    assert (found.size, found.parameter_count) == (2, 0)
    pairs = zip(found.gradient_and_hessian(x[:, :2]), S.gradient_and_hessian(x), strict=True)
    for own, expected in pairs:
        assert_near(own, expected)


def test_weights_count_in_the_degree():
    S = GeneratingFunction(2, degree=4, weights=[0.5, 2])
    expected = {(a, b) for a in range(9) for b in range(3) if a / 2 + 2 * b <= 4 or a + b <= 2} - {
        (0, 0)
    }
    assert {*map(tuple, S.terms.chosen.tolist())} == expected
    plain = GeneratingFunction(2, degree=4)
    equal = GeneratingFunction(2, degree=4, weights=[1, 1])
    heavy = GeneratingFunction(2, degree=4, weights=[0.5, 3])
    assert torch.equal(plain.terms.chosen, equal.terms.chosen)
    assert [0, 2] in heavy.terms.chosen.tolist()  # a kinetic energy


@pytest.mark.parametrize(
    ("weights", "words"),
    [([1, 0], "must be"), ([1, 40], "from 0.0625 to 16"), ([1] * 5, "at most 4 numbers")],
)
def test_wrong_weights(weights, words):
    with pytest.raises(InputError, match=words):
        GeneratingFunction(4, degree=2, weights=weights)


def test_weights_are_those_of_components_that_symmetries_exchange():
    GeneratingFunction(4, degree=4, group=GROUP, weights=[0.5, 0.5, 2, 2])
    with pytest.raises(InputError, match="exchange components of different weights"):
        GeneratingFunction(4, degree=4, group=GROUP, weights=[0.5, 1, 2, 2])
