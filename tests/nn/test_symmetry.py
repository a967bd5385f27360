import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.nn.laws import SIGN_FLIPS, assert_close
from vpintegrator.errors import InputError
from vpintegrator.nn import generated_group, symmetry_group
from vpintegrator.nn.scores import BilinearScores
from vpintegrator.nn.symmetry import invariant_entries

C, S = math.cos(2 * math.pi / 3), math.sin(2 * math.pi / 3)


def test_rigid_body_group():
    group = symmetry_group(np.array(SIGN_FLIPS), 3)
    signs = {tuple(S.diagonal().tolist()) for S in group}
    assert signs == {(1, 1, 1), (-1, -1, 1), (-1, 1, -1), (1, -1, -1)}
    assert_close(group[0], torch.eye(3, dtype=torch.float64), 0)


def test_non_commuting_reflections():
    """Two mirrors at 60 degrees generate the rotations of a triangle."""
    group = symmetry_group([[[1, 0], [0, -1]], [[C, S], [S, -C]]], 2)
    assert len(group) == 3
    assert len(generated_group([[[1, 0], [0, -1]], [[C, S], [S, -C]]], 2)) == 6


@given(st.sampled_from(["skew", "arbitrary"]), st.lists(st.permutations(range(4)), max_size=2))
def test_invariant_weights(kind, permutations):
    matrices = [torch.eye(4, dtype=torch.float64)[list(p)] for p in permutations]
    group = generated_group(matrices, 4)
    if not invariant_entries(kind, group)[2]:
        with pytest.raises(InputError, match="other than zero"):
            BilinearScores(4, kind, symmetries=group)
        return
    A = BilinearScores(4, kind, symmetries=group).matrix().detach()
    assert_close(group.mT @ A @ group, A.expand(len(group), 4, 4), 1e-12)
    if kind == "skew":
        assert_close(A, -A.mT, 1e-12)


@pytest.mark.parametrize("kind", ["skew", "arbitrary"])
def test_weights_respect_signed_permutations_alone(kind):
    with pytest.raises(InputError, match="sign flips and permutations"):
        BilinearScores(2, kind, symmetries=generated_group([[[C, -S], [S, C]]], 2))
