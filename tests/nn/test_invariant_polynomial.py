"""Quadratic functions whose flows rotate planes, and polynomials that these leave as they are."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import linalg

from tests.nn.laws import assert_close, assert_near, sample
from vpintegrator.errors import InputError
from vpintegrator.nn import InvariantPolynomial, Rotations, canonical_form

FREQUENCIES = {
    "one plane": [[1.0]],
    "against each other": [[1.0, -1.0]],
    "waves": [[1.0, 1.0, 0.0], [1.0, 0.0, 1.0]],
    "resonant": [[1.0, 2.0]],
    "none of one plane": [[2.0, 0.0]],
}


def made(name, degree=5):
    torch.manual_seed(1)
    frequencies = torch.tensor(FREQUENCIES[name])
    centre = torch.linspace(-0.2, 0.3, 2 * frequencies.shape[1])
    S = InvariantPolynomial(frequencies, degree, centre=centre, initial_scale=0.3).double()
    S.adapt(states(S, 50, 2) * 1.3)
    return S


def states(S, count, seed=0):
    return sample(count, S.size, seed=seed)


def value(S, u):
    """The function at one state, in the complex numbers of the documented formula."""
    w = ((u - S.box_shift) / S.box_scale).unflatten(0, (-1, 2))
    w = torch.view_as_complex(w.contiguous())
    total = 0.0
    functions = S.terms.kinds[0].functions(S.degree)
    for term, source, factor in zip(
        S.terms.chosen.tolist(), S.terms.sources[:, 0], S.terms.factors[:, 0], strict=True
    ):
        product = S.coefficients[source] * factor
        for w_k, index in zip(w, term, strict=True):
            j, m, part = functions[index]
            radial = torch.special.chebyshev_polynomial_t(2 * w_k.abs() ** 2 - 1, j)
            power = w_k**m
            product = product * radial * (power.imag if part else power.real)
        total = total + product
    return total


@pytest.mark.parametrize("name", FREQUENCIES)
def test_derivatives_are_those_of_the_sum_over_terms(name):
    S = made(name)
    for u in states(S, 3):
        h = 1e-5
        slopes = [(value(S, u + h * e) - value(S, u - h * e)) / (2 * h) for e in torch.eye(S.size)]
        assert_close(S.gradient(u), torch.stack(slopes), 1e-7)
        gradient, hessian = S.gradient_and_hessian(u)
        assert_near(gradient, S.gradient(u))
        assert_near(hessian, torch.func.jacrev(S.gradient)(u))
        features = S.features(u[None], [(i,) for i in range(S.size)])
        assert_near(torch.cat(features) @ S.coefficients, gradient)


@pytest.mark.parametrize("name", FREQUENCIES)
def test_the_flows_leave_it_as_it_is(name):
    S = made(name)
    kept = S.kept
    for omega in torch.tensor(FREQUENCIES[name]).double():
        assert_close(omega - kept.mT @ (kept @ omega), 0 * omega, 1e-12)
    u = states(S, 20)
    moved = (u - S.box_shift).unflatten(1, (-1, 2)) / S.box_scale.unflatten(0, (-1, 2))[:, :1]
    for omega in kept:
        angle = 0.7 * omega[:, None]
        x, y = moved.unbind(-1)
        c, s = torch.cos(angle[:, 0]), torch.sin(angle[:, 0])
        turned = torch.stack([c * x - s * y, s * x + c * y], -1)
        turned = turned.flatten(1) * S.box_scale + S.box_shift
        for before, after in zip(u, turned, strict=True):
            assert_close(value(S, after), value(S, before), 1e-13)


def test_all_invariant_polynomials_are_there():
    """As many as the average over rotations leaves of all polynomials of that degree."""
    S = InvariantPolynomial(torch.tensor([[1.0, 2.0]]), 5)
    generator = np.random.default_rng(0)
    u = generator.normal(size=(400, 4))
    w = u[:, 0::2] + 1j * u[:, 1::2]
    columns = []
    for e in np.ndindex(6, 6, 6, 6):
        if 0 < sum(e) <= 5 and e[0] - e[1] + 2 * (e[2] - e[3]) == 0:
            product = w[:, 0] ** e[0] * w[:, 0].conj() ** e[1]
            product = product * w[:, 1] ** e[2] * w[:, 1].conj() ** e[3]
            columns += [product.real, product.imag]
    assert np.linalg.matrix_rank(np.stack(columns, 1)) == S.terms.count
    points = torch.from_numpy(u)
    own = torch.cat(S.double().features(points, [(i,) for i in range(4)]))
    assert np.linalg.matrix_rank(own.numpy()) == S.terms.count


def test_what_is_prolonged_is_the_same_function():
    small = made("waves", 4)
    large = made("waves", 6)
    large.prolong(small)
    u = states(small, 5)
    assert_near(large.gradient(u), small.gradient(u))


def test_too_many_coefficients_are_refused():
    with pytest.raises(InputError, match="take a lower degree"):
        InvariantPolynomial(torch.tensor([[1.0, -1.0, 0.0, 0.0]]), 12)
    with pytest.raises(InputError, match="take a lower degree"):  # at once
        InvariantPolynomial(torch.ones(1, 4), 64)
    with pytest.raises(InputError, match="no polynomial of degree 1"):
        InvariantPolynomial(torch.tensor([[1.0]]), 1)


# the planes of quadratic functions


def symplectic(size, seed):
    """A linear symplectic map at random."""
    generator = np.random.default_rng(seed)
    H = generator.normal(size=(size, size))
    return linalg.expm(0.1 * canonical_form(size).numpy() @ (H + H.T))


def form(frequencies, M, centre):
    r"""The matrix of :math:`\sum_k \omega_k (u_k^2 + v_k^2) / 2` at (u, v) = M (z - centre)."""
    H = M.T @ np.diag([*frequencies, *frequencies]) @ M / 2
    F = np.zeros((1 + len(M), 1 + len(M)))
    F[1:, 1:] = H
    F[0, 1:] = F[1:, 0] = -H @ centre
    F[0, 0] = centre @ H @ centre
    return F


@given(
    frequencies=st.lists(
        st.tuples(st.integers(-2, 2), st.integers(-2, 2), st.integers(1, 2)), min_size=1, max_size=2
    ),
    seed=st.integers(0, 20),
)
def test_planes_are_canonical_and_all_flows_turn_them(frequencies, seed):
    M = symplectic(6, seed)
    centre = np.random.default_rng(seed).normal(size=6)
    forms = [form(omega, M, centre) for omega in frequencies]
    found = Rotations.of(np.array(forms), 6)
    J = canonical_form(6)
    pairs = torch.kron(torch.eye(3).double(), canonical_form(2))
    assert_close(found.planes @ J @ found.planes.mT, pairs, 1e-11)
    z = torch.from_numpy(np.random.default_rng(1).normal(size=(9, 6)))
    u = (z - found.centre) @ found.planes.mT
    squares = u.square().unflatten(1, (3, 2)).sum(2)  # (state, plane)
    one = torch.cat([torch.ones(9, 1), z], 1).double()
    for F, omega in zip(forms, found.frequencies, strict=True):
        values = ((one @ torch.from_numpy(F)) * one).sum(1)
        ours = squares @ omega / 2
        assert_close(values - values[0], ours - ours[0], 1e-8 * float(1 + values.abs().max()))


@pytest.mark.parametrize(
    ("forms", "words"),
    [
        ([np.eye(3)], "matrices of 5 rows"),
        ([np.diag([1.0, 0, 0, 0, 0])], "no quadratic part"),
        ([np.diag([0.0, 1, 0, -1, 0])], "rotate planes alone"),  # a saddle
        ([np.diag([0.0, 0, 0, 1, 0])], "rotate planes alone"),  # a shear
        ([np.diag([0.0, 1, 0, 1, 0]), np.diag([0.0, 1, 1, 0, 0])], "commute with each other"),
        (
            [
                form([1, 0], np.eye(4), np.zeros(4)),
                form([1, 0], np.eye(4), np.array([1.0, 0, 0, 0])),
            ],
            "common fixed point",
        ),
    ],
)
def test_other_functions_are_refused(forms, words):
    with pytest.raises(InputError, match=words):
        Rotations.of(np.array(forms), 4)
