"""Adam on the Stiefel manifold: its steps written out, and what it finds."""

import copy

import numpy as np
import pytest
import torch

import vpintegrator as vp
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


pytestmark = pytest.mark.filterwarnings("ignore:.* is not to be relied on")


def dataset_of(tmp_path):
    return vp.generate("pendulum", tmp_path / "pendulum.h5", count=30, steps=10)


def weights_of(model):
    parts = [each for each in model.modules() if isinstance(each, nn.Heads)]
    return [each.weight for each in parts]


@pytest.mark.parametrize("compiled", [False, None])
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("transformer", {"heads": 2}),
        ("transformer", {"heads": 2, "block": "encoder", "dtype": "float32"}),
        ("vpmt", {}),
    ],
)
def test_a_training_keeps_the_projections_of_a_model(tmp_path, name, arguments, compiled):
    """They move, as the other weights do, and stay orthonormal."""
    data = dataset_of(tmp_path)
    torch.manual_seed(0)
    model = vp.models.build(data.system, name, arguments)
    before = copy.deepcopy(model)
    history = vp.train(model, data, optimizer="stiefel-adam", epochs=15, compiled=compiled)
    assert history.optimizer == "stiefel-adam"
    assert history.validation_error[-1] < 0.7 * history.validation_error[0]
    tolerance = 1e-14 if model.scale.dtype == DOUBLE else 1e-6
    for weight, old in zip(weights_of(model), weights_of(before), strict=True):
        assert nn.orthonormality_error(weight) < tolerance
        assert (weight - old).abs().max() > 1e-3
    assert nn.orthonormality_error(weights_of(trained_by_adam(before, data))[0]) > 1e-3


def trained_by_adam(model, data):
    vp.train(model, data, optimizer="adam", epochs=15)
    return model


def test_other_weights_move_as_by_adam(tmp_path):
    """Without projections that see a gradient the two optimizers are one."""
    data = dataset_of(tmp_path)
    torch.manual_seed(0)
    model = vp.models.build(data.system, "transformer", {"heads": 2})
    for weight in weights_of(model):
        weight.requires_grad_(False)
    weights_of(model)[0].requires_grad_()
    twin = copy.deepcopy(model)
    kinds = ("stiefel-adam", "adam")
    for each, kind in zip((model, twin), kinds, strict=True):
        vp.train(
            each, data, optimizer=kind, epochs=1, batch=1 << 19, compiled=False, normalise=True
        )
    first = {id(weights_of(each)[0]) for each in (model, twin)}
    pairs = zip(model.parameters(), twin.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs if id(a) not in first)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("vpt", {}, "vpt has no projections .* use adam, or a model with multihead attention"),
        ("resnet", {}, "resnet has no projections"),
        ("transformer", {"attention": "general"}, "transformer has no projections"),
        ("transformer", {"heads": 2, "stiefel": True}, "leave out stiefel, or use adam"),
        ("vpmt", {"stiefel": True}, "leave out stiefel"),
    ],
)
def test_models_without_free_projections_are_refused(tmp_path, name, arguments, message):
    data = dataset_of(tmp_path)
    model = vp.models.build(data.system, name, arguments)
    with pytest.raises(InputError, match=message):
        vp.train(model, data, optimizer="stiefel-adam", epochs=1)


def test_projections_that_adam_has_moved_are_refused(tmp_path):
    data = dataset_of(tmp_path)
    model = trained_by_adam(vp.models.build(data.system, "transformer", {"heads": 2}), data)
    with pytest.raises(InputError, match=r"no longer orthonormal .* an untrained model"):
        vp.train(model, data, optimizer="stiefel-adam", epochs=1)
