"""Recurrent layers beside those of PyTorch."""

import pytest
import torch

from tests.nn.laws import assert_close, randomise, sample
from vpintegrator.nn.recurrent import GatedRecurrentUnit, LongShortTermMemory

EXAMPLES = {
    "lstm": lambda d, T: LongShortTermMemory(d, 4),
    "gru": lambda d, T: GatedRecurrentUnit(d, 4),
}


@pytest.mark.parametrize(
    ("kind", "other"), [(LongShortTermMemory, torch.nn.LSTM), (GatedRecurrentUnit, torch.nn.GRU)]
)
def test_hidden_states_are_those_of_pytorch(kind, other):
    layer = randomise(kind(3, 5).double(), 0.6, 1)
    own = other(3, 5, batch_first=True).double()
    names = ("weight_ih_l0", "bias_ih_l0", "weight_hh_l0", "bias_hh_l0")
    own.load_state_dict(dict(zip(names, layer.parameters(), strict=True)))
    X = sample(4, 7, 3)
    assert_close(layer(X), own(X)[0], 1e-14)
    assert_close(layer(X[0]), own(X[0])[0], 1e-14)
