"""Python functions with where, comparisons, absolute values and extremes, recorded as formulas."""

import math

import numpy as np
import pytest
import scipy.special
import torch

import vpintegrator as vp

STATES = np.random.default_rng(0).normal(size=(40, 2))

# expressions of q and p: in NumPy, in PyTorch, and in a system file
WRITTEN = {
    "where(q > 0, 4*q, q)": (
        lambda q, p: np.where(q > 0, 4 * q, q),
        lambda q, p: torch.where(q > 0, 4 * q, q),
    ),
    "where(q >= p, 1, p)": (
        lambda q, p: np.where(np.greater_equal(q, p), 1, p),
        lambda q, p: torch.where(q.ge(p), 1.0, p),
    ),
    "where(-1 < q <= 1, q, 2)": (
        lambda q, p: np.where((q > -1) & (q <= 1), q, 2),
        lambda q, p: torch.where(torch.logical_and(q > -1, q <= 1), q, 2.0),
    ),
    "where(q < 0, 0, where(p < 0, 0, q*p))": (
        lambda q, p: np.where(~np.logical_or(q < 0, p < 0), q * p, 0),
        lambda q, p: torch.where(~((q < 0) | (p < 0)), q * p, 0.0),
    ),
    "abs(q)": (lambda q, p: abs(q), lambda q, p: q.abs()),
    "abs(p)": (lambda q, p: np.abs(p), lambda q, p: torch.abs(p)),
    "sign(q)*p**2": (lambda q, p: np.sign(q) * p**2, lambda q, p: torch.sign(q) * p**2),
    "min(q, p)": (lambda q, p: np.minimum(q, p), lambda q, p: torch.minimum(q, p)),
    "max(q, p)": (lambda q, p: np.maximum(q, p), lambda q, p: torch.maximum(q, p)),
    "min(max(q, -1/2), 1)": (
        lambda q, p: np.clip(q, -0.5, 1),
        lambda q, p: torch.clamp(q, -0.5, 1),
    ),
    "max(p, 0)": (lambda q, p: np.clip(p, 0, None), lambda q, p: p.clamp(min=0)),
    "min(p, 1)": (lambda q, p: np.clip(p, -np.inf, 1), lambda q, p: torch.clip(p, max=1)),
    "erf(q)": (lambda q, p: scipy.special.erf(q), lambda q, p: torch.special.erf(q)),
    "1 - erf(p)": (lambda q, p: scipy.special.erfc(p), lambda q, p: 1 - torch.erf(p)),
}


def from_file(text):
    return vp.load_system(f'state = ["q", "p"]\n[vector_field]\nq = "p"\np = "{text}"\n')


def from_function(function, join):
    def field(t, y):
        q, p = y[..., 0], y[..., 1]
        return join([p, function(q, p)], -1)

    return vp.System.from_function(field, dim=2, components=["q", "p"])


@pytest.mark.parametrize("text", WRITTEN)
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_the_same_as_a_function_and_as_a_file(text, library):
    function = WRITTEN[text][library == "torch"]
    system = from_function(function, np.stack if library == "numpy" else torch.stack)
    file = from_file(text)
    assert system.has_formulas
    np.testing.assert_allclose(
        system.vector_field(STATES), file.vector_field(STATES), rtol=1e-14, atol=1e-14
    )
    np.testing.assert_allclose(
        system.jacobian(STATES), file.jacobian(STATES), rtol=1e-14, atol=1e-14
    )
    given = STATES if library == "numpy" else torch.from_numpy(STATES)
    expected = np.broadcast_to(np.asarray(function(given[:, 0], given[:, 1])), 40)
    np.testing.assert_allclose(system.vector_field(STATES)[:, 1], expected, rtol=1e-14, atol=1e-14)
    assert vp.load_system(system.text).text == system.text


def test_numbers_and_whole_arrays():
    def field(t, y):
        rates = np.where(y > 0, y, -2 * y)
        rates[0] += math.erf(y[1]) + min(y[0], 1, y[1]) + max([y[0], 0.5]) + y.max() + np.min(y)
        rates[1] += np.where(1 > 0, 3, y[0]) + max(1, 2) + np.heaviside(y[0], 0.5)
        return rates

    system = vp.System.from_function(field, dim=2)
    assert system.has_formulas
    expected = [field(0, y) for y in STATES]
    np.testing.assert_allclose(system.vector_field(STATES), expected, rtol=1e-14, atol=1e-14)


def test_a_piecewise_hamiltonian_conserves_its_energy():
    system = vp.System.from_hamiltonian(
        lambda q, p: p @ p / 2 + (q @ q) / 2 + np.where(q[0] > 1, 5 * (q[0] - 1) ** 2, 0), 1
    )
    file = vp.load_system(
        'state = ["q", "p"]\nhamiltonian = "p**2/2 + q**2/2 + where(q > 1, 5*(q - 1)**2, 0)"\n'
    )
    assert system.has_formulas
    np.testing.assert_allclose(system.vector_field(STATES), file.vector_field(STATES), rtol=1e-14)
    states = vp.solve(system, np.array([[0.5, 1.5]]), np.linspace(0, 10, 101))
    energy = system.invariants["energy"](states)
    assert np.ptp(energy) < 1e-9


@pytest.mark.parametrize(
    "field",
    [
        lambda t, y: [y[1], -y[0] if y[0] > 0 else -2 * y[0]],
        lambda t, y: [y[1], -y[0] if 0 < y[0] < 1 else -2 * y[0]],
        lambda t, y: [y[1], y[0] if y[0] <= 1 and y[1] else 1.0],
        lambda t, y: [y[1], sorted(y)[0]],
        lambda t, y: [y[1], np.where(y[0] > 0, np.sqrt(y[0]), 0)],
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_other_decisions_are_called(field):
    system = vp.System.from_function(field, dim=2)
    assert not system.has_formulas
    expected = [np.array(field(0, y)) for y in STATES]
    np.testing.assert_allclose(system.vector_field(STATES), expected)
