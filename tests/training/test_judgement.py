"""Models that are not to be relied on."""

import pytest
import torch

import vpintegrator as vp
from vpintegrator.data.pairs import Pair
from vpintegrator.training import History
from vpintegrator.training.residuals import ErrorScale, doubt


@pytest.mark.parametrize(
    ("validation", "test", "words"),
    [
        (1e-3, 1e-3, ""),
        (1e-3, 0.9e-1, ""),
        (1e-3, 1.1e-1, "test error 1.1e-01 is far above the validation error 1.0e-03"),
        (1e-15, 1e-11, ""),
        (0.6, 0.4, "validation error 6.0e-01 is above that of no change, 5.0e-01"),
        (0.4, 0.6, "test error 6.0e-01 is above that of no change, 5.0e-01"),
        (0.1, float("inf"), "test error inf is far above"),
        (0.1, float("nan"), ""),
    ],
)
def test_what_is_told(validation, test, words):
    model = vp.models.VolumePreservingFeedForward(dim=2)
    windows = Pair(torch.ones(5, 1, 2).double(), torch.full((5, 1, 2), 2.0).double())
    history = History("adam", 0, 100, best_validation_error=validation, test_error=test)
    told = doubt(model, windows, ErrorScale((0,), 2.0), history)
    assert words in told
    assert bool(words) == bool(told)
