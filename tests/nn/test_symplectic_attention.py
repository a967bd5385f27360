"""Symplectic attention as published: gradients of potentials written out, and symmetries."""

import numpy as np
import pytest
import torch

from tests.nn.laws import assert_close, randomise, sample
from vpintegrator import nn
from vpintegrator.errors import InputError
from vpintegrator.models import SymplecticTransformer

EXAMPLES = {
    "symplectic softmax": lambda d, T: nn.SoftmaxSymplecticAttention(d + d % 2),
    "symplectic softmax of columns": lambda d, T: nn.SoftmaxSymplecticAttention(
        d + d % 2, normaliser="vector", weighting="arbitrary"
    ),
    "symplectic softmax of positions": lambda d, T: nn.SoftmaxSymplecticAttention(
        d + d % 2, half="positions"
    ),
    "linear symplectic attention": lambda d, T: nn.LinearSymplecticAttention(d + d % 2, T),
    "gradient shear": lambda d, T: nn.GradientShear(nn.NeuronPotential((d + 1) // 2, 3), "momenta"),
}
MOMENTA = torch.diag(torch.tensor([1.0, 1, -1, -1])).tolist()
EXCHANGE = [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]
TURN = [[0, -1, 0, 0], [1, 0, 0, 0], [0, 0, 0, -1], [0, 0, 1, 0]]


def attended(A, P, normaliser):
    """A P W^T + A^T P W for vectors in the columns of P, in NumPy, as in the Julia package."""
    C = np.exp(P.T @ A @ P)
    W = C / (C.sum() if normaliser == "matrix" else C.sum(0))
    return A @ P @ W.T + A.T @ P @ W


def weighting(scores):
    """The matrix A of its free entries: row by row, from the diagonal on if symmetric."""
    entries, n = scores.entries.detach().numpy(), scores.dim
    if scores.kind == "arbitrary":
        return entries.reshape(n, n)
    A = np.zeros((n, n))
    A[np.triu_indices(n)] = entries
    return A + np.triu(A, 1).T


@pytest.mark.parametrize("normaliser", ["matrix", "vector"])
@pytest.mark.parametrize("kind", ["symmetric", "arbitrary"])
@pytest.mark.parametrize("half", ["both", "positions", "momenta"])
def test_softmax_attention_is_the_published_formula(normaliser, kind, half):
    options = {"half": half, "normaliser": normaliser, "weighting": kind}
    layer = randomise(nn.SoftmaxSymplecticAttention(6, **options), 0.7, 1)
    X = sample(4, 6, seed=2)
    Q, P = X.numpy().T[:3], X.numpy().T[3:]
    A = [weighting(shear.potential.scores) for shear in layer]
    if half != "momenta":
        Q = Q + attended(A[0], P, normaliser)
    if half != "positions":
        P = P + attended(A[-1], Q, normaliser)
    expected = torch.from_numpy(np.concatenate([Q, P]).T)
    assert_close(layer(X), expected, 1e-14 * (1 + float(expected.abs().max())))
    weights = layer.attention_weights(X)
    assert weights.shape == (len(layer), 4, 4)
    total = weights.sum((-2, -1)) if normaliser == "matrix" else weights.sum(-1)
    assert_close(total, torch.ones_like(total), 1e-14)


@pytest.mark.parametrize("normaliser", ["matrix", "vector"])
@pytest.mark.parametrize("kind", ["symmetric", "arbitrary"])
def test_softmax_attention_is_the_gradient_of_its_potential(normaliser, kind):
    V = randomise(nn.AttentionPotential(3, normaliser=normaliser, weighting=kind), 0.5, 4)

    A = torch.from_numpy(weighting(V.scores))

    def value(Q):
        S = Q @ A @ Q.mT
        return S.flatten().logsumexp(0) if normaliser == "matrix" else S.logsumexp(0).sum()

    Q = sample(4, 3)
    assert_close(V.gradient(Q), torch.func.grad(value)(Q), 1e-14)


def test_linear_attention_is_a_symmetric_mixture_of_time_steps():
    layer = randomise(nn.LinearSymplecticAttention(4, 3), 0.7, 1)
    X = sample(5, 3, 4, seed=2)
    Q, P = X[..., :2], X[..., 2:]
    A, B = (torch.from_numpy(weighting(shear.potential.weighting)) for shear in layer)
    Q = Q + torch.einsum("ts,nsi->nti", A, P)
    P = P + torch.einsum("ts,nsi->nti", B, Q)
    assert_close(layer(X), torch.cat([Q, P], -1), 1e-14)
    assert sum(p.numel() for p in layer.parameters()) == 12


@pytest.mark.parametrize("generators", [[EXCHANGE], [TURN], [TURN, EXCHANGE]])
def test_symmetries(generators):
    for layer in (
        nn.SoftmaxSymplecticAttention(4, symmetries=generators),
        nn.LinearSymplecticAttention(4, 3, symmetries=generators),
    ):
        randomise(layer, 0.5, 1)
        X = sample(5, 3, 4)
        assert (layer(X) - X).abs().max() > 1e-2
        for S in nn.generated_group(generators, 4):
            assert_close(layer(X @ S.mT), layer(X) @ S.mT, 1e-13)


def test_what_does_not_fit():
    with pytest.raises(InputError, match="even number"):
        nn.SoftmaxSymplecticAttention(3)
    with pytest.raises(InputError, match="half must be one of"):
        nn.LinearSymplecticAttention(4, 3, half="q")
    with pytest.raises(InputError, match="normaliser must be one of matrix, vector"):
        nn.AttentionPotential(2, normaliser="columns")
    with pytest.raises(InputError, match="weighting must be one of symmetric, arbitrary"):
        nn.AttentionPotential(2, weighting="skew")
    with pytest.raises(InputError, match="weighting must be one of skew, arbitrary"):
        nn.VolumePreservingAttention(2, "symmetric")
    squeeze = torch.diag(torch.tensor([-2.0, -0.5])).tolist()
    with pytest.raises(InputError, match="more than 128"):
        nn.LinearSymplecticAttention(2, 3, symmetries=[squeeze])
    oblique = [[1, 1, 0, 0], [0, -1, 0, 0], [0, 0, 1, 0], [0, 0, 1, -1]]
    with pytest.raises(InputError, match="orthogonal symmetries alone"):
        nn.LinearSymplecticAttention(4, 3, symmetries=[oblique])


@pytest.mark.parametrize(("attention", "count"), [("softmax", 134), ("linear", 140)])
def test_the_published_transformers(attention, count):
    """Two attention layers of 3 or 6 entries; four gradient layers of 8 neurons of 2 inputs."""
    model = SymplecticTransformer.published(4, attention=attention)
    assert sum(p.numel() for p in model.parameters()) == count
    assert model.structure.is_symplectic and model.prediction_window == model.window == 3
    kinds = [type(layer).__name__ for layer in model.core]
    name = "SoftmaxSymplecticAttention" if attention == "softmax" else "LinearSymplecticAttention"
    assert kinds == [name, "GradientCoupling"] * 2
    moved = [shear.moved for layer in list(model.core)[::2] for shear in layer]
    assert moved == ["positions", "momenta"]
