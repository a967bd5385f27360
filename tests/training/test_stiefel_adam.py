"""Adam on the Stiefel manifold: its steps written out, and what it finds."""

import copy

import numpy as np
import pytest
import torch

from vpintegrator import nn
from vpintegrator.errors import InputError
from vpintegrator.training import StiefelAdam

DOUBLE = torch.float64


def orthonormal(*shape, seed=0):
    rows = np.random.default_rng(seed).normal(size=shape)
    return np.linalg.qr(np.swapaxes(rows, -1, -2))[0].swapaxes(-1, -2)


def steps_written_out(W, gradients, rate, betas, eps):
    """Weights after each step, by the formulas of arXiv 2305.16901 with full matrices."""
    Y, (n, m), one = W.T, W.shape, np.eye(W.shape[1])
    section = np.concatenate([Y, np.linalg.qr(Y, mode="complete")[0][:, n:]], 1)
    first, second, result = np.zeros((m, m)), np.zeros((m, m)), []
    for k, gradient in enumerate(gradients, 1):
        G, P = gradient.T, one - Y @ Y.T / 2
        D = G - Y @ G.T @ Y
        B = section.T @ (P @ D @ Y.T - Y @ D.T @ P) @ section
        first, second = (
            betas[0] * first + (1 - betas[0]) * B,
            betas[1] * second + (1 - betas[1]) * B**2,
        )
        X = first / (1 - betas[0] ** k) / (np.sqrt(second / (1 - betas[1] ** k)) + eps)
        section = section @ np.linalg.solve(one + rate * X / 2, one - rate * X / 2)
        Y = section[:, :n]
        result.append(Y.T)
    return result


@pytest.mark.parametrize(("n", "m"), [(3, 5), (1, 4), (4, 4)])
def test_steps_are_those_of_the_formulas(n, m):
    W = orthonormal(n, m, seed=n)
    gradients = np.random.default_rng(7).normal(size=(6, n, m))
    options = {"betas": (0.8, 0.95), "eps": 0.1}
    expected = steps_written_out(W, gradients, 0.1, *options.values())
    weight = torch.nn.Parameter(torch.from_numpy(W.copy()))
    optimizer = StiefelAdam([weight], lr=0.1, **options)
    for k, (gradient, after) in enumerate(zip(gradients, expected, strict=True), 1):
        weight.grad = torch.from_numpy(gradient)
        optimizer.step()
        np.testing.assert_allclose(weight.detach().numpy(), after, rtol=0, atol=k**2 * 1e-14)


def test_it_finds_the_leading_eigenvectors():
    """Of three matrices at once, of which each weight of a head has its own."""
    A = torch.from_numpy(np.random.default_rng(3).normal(size=(3, 6, 6)))
    A = A @ A.mT
    weight = torch.nn.Parameter(torch.from_numpy(orthonormal(3, 2, 6).copy()))
    optimizer = StiefelAdam([weight], lr=0.05)

    def closure():
        optimizer.zero_grad()
        loss = -(weight @ A @ weight.mT).diagonal(dim1=-2, dim2=-1).sum()
        loss.backward()
        return loss

    for step in range(600):
        optimizer.param_groups[0]["lr"] = 0.05 * 0.99**step
        loss = optimizer.step(closure)
    best = torch.linalg.eigvalsh(A)[:, -2:].sum()
    assert abs(loss.item() + best.item()) < 1e-6 * best.item()
    assert nn.orthonormality_error(weight) < 1e-14


def test_the_projections_of_attention_stay_orthonormal():
    torch.manual_seed(0)
    layer = nn.MultiHeadAttention(6, 3, dtype=DOUBLE)
    X, Y = torch.randn(2, 20, 4, 6, dtype=DOUBLE)
    optimizer = StiefelAdam(layer.parameters(), lr=0.02)
    losses = []
    for _ in range(50):
        optimizer.zero_grad()
        losses.append((layer(X) - Y).square().mean())
        losses[-1].backward()
        optimizer.step()
    assert losses[-1] < losses[0]
    for part in (layer.scores.query, layer.scores.key, layer.value):
        assert nn.orthonormality_error(part.weight) < 1e-14


def test_it_goes_on_from_a_stored_state_and_from_other_weights():
    W, gradients = orthonormal(2, 5), torch.randn(8, 2, 5, dtype=DOUBLE)

    def run(weight, optimizer, some):
        for weight.grad in some:
            optimizer.step()
        return weight.detach().clone()

    weight = torch.nn.Parameter(torch.from_numpy(W.copy()))
    optimizer = StiefelAdam([weight], lr=0.1)
    run(weight, optimizer, gradients[:4])
    again = torch.nn.Parameter(weight.detach().clone())
    other = StiefelAdam([again], lr=0.5)
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert torch.equal(run(again, other, gradients[4:]), run(weight, optimizer, gradients[4:]))
    with torch.no_grad():
        weight.copy_(torch.from_numpy(orthonormal(2, 5, seed=9)))
    before = weight.detach().clone()
    optimizer.param_groups[0]["lr"] = 1e-9
    assert (run(weight, optimizer, gradients[:1]) - before).abs().max() < 1e-7


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (torch.ones(2, 3), "not orthonormal .*; begin with torch.nn.init.orthogonal_"),
        (torch.eye(3)[:, :2], r"shape \(3, 2\) cannot have orthonormal rows"),
        (torch.ones(3), r"shape \(3,\) cannot"),
        (torch.full((2, 3), torch.nan), "not orthonormal"),
    ],
)
def test_weights_elsewhere_are_refused(weight, message):
    with pytest.raises(InputError, match=message):
        StiefelAdam([torch.nn.Parameter(weight)])
    with pytest.raises(InputError, match="lr"):
        StiefelAdam([torch.nn.Parameter(torch.eye(3))], lr=-1.0)
