"""Linear maps with structure: which matrices they reach, and that structure is exact."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import expm

from tests.nn.laws import assert_close, randomise, sample
from vpintegrator.errors import InputError
from vpintegrator.nn import AffineMap, canonical_form

SEEDS = st.integers(0, 10**6)


def shift(sites, fields=1):
    """States moved on by a site of a ring."""
    own = torch.roll(torch.eye(sites, dtype=torch.float64), 1, 0)
    return torch.kron(torch.eye(fields, dtype=torch.float64), own)


def set_to(matrix, *arguments):
    layer = AffineMap(len(matrix), *arguments)
    layer.matrix = matrix
    return layer.matrix.detach()


@given(st.integers(1, 4), st.integers(1, 6), SEEDS)
def test_maps_are_the_same_at_each_site(fields, sites, seed):
    layer = randomise(AffineMap(fields * sites, "volume-preserving", sites), 0.5, seed)
    z, S = sample(3, fields * sites, seed=seed), shift(sites, fields)
    assert_close(layer(z @ S.mT), layer(z) @ S.mT, 1e-10)


@given(st.sampled_from(["symplectic", "volume-preserving", "none"]), st.integers(1, 5), SEEDS)
def test_a_matrix_of_the_form_is_set_exactly(structure, sites, seed):
    layer = randomise(AffineMap(4 * sites, structure, sites), 0.4, seed)
    A = layer.matrix.detach().clone()
    assert_close(set_to(A, structure, sites), A, 1e-10)


@pytest.mark.parametrize(
    ("matrix", "arguments"),
    [
        (-torch.eye(4), ("symplectic",)),
        (-torch.eye(4), ("volume-preserving",)),
        (-torch.eye(3), ("volume-preserving",)),  # determinant -1
        (torch.diag(torch.tensor([-2.0, -0.5])), ("symplectic",)),  # no real logarithm
        (torch.tensor([[-1.0, 1.0], [0.0, -1.0]]), ("symplectic",)),  # nor has this one
        (shift(7), ("volume-preserving", 7)),
        (shift(6), ("volume-preserving", 6)),  # determinant -1
        (-shift(6), ("volume-preserving", 6)),
        (-shift(5), ("volume-preserving", 5)),
        (-shift(6, 2), ("symplectic", 6)),
    ],
)
def test_matrices_without_a_logarithm_are_reached(matrix, arguments):
    assert_close(set_to(matrix.double(), *arguments), matrix.double(), 1e-13)


@given(SEEDS)
def test_the_nearest_matrix_of_another_one_has_structure(seed):
    J = canonical_form(4)
    A = torch.from_numpy(expm((J @ sample(4, 4, seed=seed)).numpy())) + 1e-3 * sample(4, 4, seed=1)
    found = set_to(A, "symplectic")
    assert_close(found.mT @ J @ found, J, 1e-10 * float(found.abs().max()) ** 2)
    whole = set_to(A, "volume-preserving")
    assert abs(abs(float(torch.linalg.det(whole))) - 1) < 1e-8


def test_weights_are_trained_by_gradients():
    layer = AffineMap(4, "symplectic")
    layer(sample(5, 4)).square().sum().backward()
    assert all(bool(parameter.grad.isfinite().all()) for parameter in layer.parameters())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((5, "symplectic"), "equally many positions as momenta"),
        ((6, "volume-preserving", 4), "components do not have 4 sites alike"),
        ((4, "unitary"), "structure"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(InputError, match=message):
        AffineMap(*arguments)
