import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.nn.laws import SIGN_FLIPS, assert_close
from vpintegrator.errors import InputError
from vpintegrator.nn import generated_group, symmetry_group
from vpintegrator.nn.cayley import skew_matrix
from vpintegrator.nn.symmetry import InvariantWeight, _row_echelon, invariant_basis


def test_rigid_body_group():
    group = symmetry_group(np.array(SIGN_FLIPS), 3)
    signs = {tuple(S.diagonal().tolist()) for S in group}
    assert signs == {(1, 1, 1), (-1, -1, 1), (-1, 1, -1), (1, -1, -1)}
    assert_close(group[0], torch.eye(3, dtype=torch.float64), 0)


def test_one_reversing_symmetry_gives_no_symmetry():
    assert len(symmetry_group([[[1, 0], [0, -1]]], 2)) == 1
    assert len(symmetry_group([], 2)) == 1


def test_non_commuting_reflections():
    """Two mirrors at 60 degrees generate the rotations of a triangle."""
    c, s = math.cos(2 * math.pi / 3), math.sin(2 * math.pi / 3)
    group = symmetry_group([[[1, 0], [0, -1]], [[c, s], [s, -c]]], 2)
    assert len(group) == 3
    assert len(generated_group([[[1, 0], [0, -1]], [[c, s], [s, -c]]], 2)) == 6


@given(st.sampled_from(["skew", "arbitrary"]), st.lists(st.permutations(range(4)), max_size=2))
def test_invariant_weights(kind, permutations):
    matrices = [torch.eye(4, dtype=torch.float64)[list(p)] for p in permutations]
    group = generated_group(matrices, 4)
    basis = invariant_basis(kind, group)
    assert torch.linalg.matrix_rank(basis.flatten(1)) == len(basis) if len(basis) else True
    if not len(basis):
        with pytest.raises(InputError, match="other than zero"):
            InvariantWeight(4, kind, group)
        return
    A = InvariantWeight(4, kind, group)().detach()
    assert_close(group.mT @ A @ group, A.expand(len(group), 4, 4), 1e-12)
    if kind == "skew":
        assert_close(A, -A.mT, 1e-12)


def averaged_units(kind, group):
    dim = group.shape[-1]
    skew = torch.eye(dim * (dim - 1) // 2, dtype=torch.float64)
    every = torch.eye(dim * dim, dtype=torch.float64).view(-1, dim, dim)
    units = skew_matrix(skew, dim) if kind == "skew" else every
    return sum(S.mT @ units @ S for S in group) / len(group)


@given(
    st.sampled_from(["skew", "arbitrary"]),
    st.lists(
        st.tuples(st.permutations(range(4)), st.lists(st.sampled_from([1.0, -1]), min_size=4)),
        max_size=2,
    ),
)
def test_signed_permutations_need_no_elimination(kind, generators):
    """The basis read off the orbits is the unique one that elimination gives."""
    matrices = [
        torch.eye(4, dtype=torch.float64)[list(p)] * torch.tensor(s[:4]) for p, s in generators
    ]
    try:
        group = generated_group(matrices, 4)
    except InputError:  # 384 signed permutations in all
        return
    expected = _row_echelon(averaged_units(kind, group).flatten(1)).view(-1, 4, 4)
    assert_close(invariant_basis(kind, group), expected, 0)
    if len(group) > 1 and len(expected):
        weight = InvariantWeight(4, kind, group)
        assert_close(weight(), torch.tensordot(weight.entries, expected, 1), 0)


@pytest.mark.parametrize("kind", ["skew", "arbitrary"])
def test_weights_of_a_rotated_group(kind):
    """Rotations by a third of a turn beside components that rest."""
    c, s = math.cos(2 * math.pi / 3), math.sin(2 * math.pi / 3)
    turn = torch.block_diag(
        torch.tensor([[c, -s], [s, c]], dtype=torch.float64), torch.eye(3).double()
    )
    group = generated_group([turn], 5)
    A = InvariantWeight(5, kind, group)().detach()
    assert_close(group.mT @ A @ group, A.expand(3, 5, 5), 1e-12)
    assert len(invariant_basis(kind, group)) == {"skew": 1 + 3, "arbitrary": 2 + 9}[kind]
    with pytest.raises(InputError, match="up to 32 components"):
        InvariantWeight(40, kind, torch.stack([torch.eye(40).double(), wide(turn, 40)]))


def wide(matrix, dim):
    return torch.block_diag(matrix, torch.eye(dim - len(matrix)).double())


def test_weights_of_many_components_are_small():
    """No basis of dim^2 matrices is stored where flips and permutations leave it sparse."""
    reverse = torch.eye(62, dtype=torch.float64).flip(0)
    weight = InvariantWeight(62, "skew", generated_group([-reverse], 62))
    assert sum(buffer.numel() for buffer in weight.buffers()) <= 2 * 62**2


@pytest.mark.parametrize(
    ("matrices", "message"),
    [
        ([[[1.0, 0.0]]], "shape"),
        ([[[1.0, 0.0], [0.0, 0.0]]], "regular"),
        ("flip", "list of"),
        ([[[10**400, 0], [0, 1]]], "list of"),
        ([[[1.0, 0.0], [0.0, 1.0]]] * 1000, "more than 128"),
        ([[[math.cos(1), -math.sin(1)], [math.sin(1), math.cos(1)]]], "finite group"),
    ],
)
def test_bad_matrices(matrices, message):
    with pytest.raises(InputError, match=message):
        generated_group(matrices, 2)
