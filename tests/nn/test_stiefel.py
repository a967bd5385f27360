import pytest
import torch

from tests.nn.laws import assert_close, sample
from vpintegrator import nn
from vpintegrator.errors import InputError


@pytest.mark.parametrize("optimizer", [torch.optim.Adam, torch.optim.SGD, torch.optim.LBFGS])
@pytest.mark.parametrize("heads", [1, 3])
def test_orthonormal_after_training(optimizer, heads):
    torch.manual_seed(0)
    layer = nn.MultiHeadAttention(6, heads, stiefel=True)
    X, Y = sample(20, 4, 6, seed=1), sample(20, 4, 6, seed=2)
    training = optimizer(layer.parameters(), lr=0.1)
    before = layer.scores.query.weight.detach().clone()

    def loss():
        training.zero_grad()
        value = (layer(X) - Y).square().mean()
        value.backward()
        return value

    first = loss().item()
    for _ in range(50):
        training.step(loss)
    assert loss().item() < first
    assert (layer.scores.query.weight - before).abs().max() > 1e-3
    for part in (layer.scores.query, layer.scores.key, layer.value):
        assert part.weight.shape == (heads, 6 // heads, 6)
        assert nn.orthonormality_error(part.weight) < 1e-12


def test_assignment():
    layer = nn.MultiHeadAttention(6, 2, stiefel=True)
    weight = torch.linalg.qr(sample(2, 6, 3)).Q.mT
    layer.scores.query.weight = weight
    assert_close(layer.scores.query.weight, weight, 1e-14)


def test_more_rows_than_columns():
    with pytest.raises(InputError, match="more rows"):
        nn.stiefel(torch.nn.Linear(2, 3), "weight")
