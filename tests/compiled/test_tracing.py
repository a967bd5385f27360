"""Following models: what is refused, and when, and weights that are computed from others."""

import numpy as np
import pytest
import torch

import vpintegrator as vp
from vpintegrator import models
from vpintegrator.compiled import NotCompilable
from vpintegrator.compiled.tracing import LARGEST, trace

from .conftest import MODELS, ready


def of_ones_own(function):
    """A model with this function of windows (1, 2)."""

    class Own(models.Model):
        def forward(self, window):
            return function(window)

    return Own(torch.nn.Identity(), 2)


@pytest.mark.parametrize(
    "build",
    [
        lambda: models.ResidualNetwork(dim=4, width=1024),
        lambda: models.VolumePreservingTransformer(dim=4, window=200),
        lambda: of_ones_own(lambda w: torch.linalg.inv(torch.eye(90).double() + w.sum())[:1, :2]),
    ],
)
def test_large_models_are_refused(build):
    with pytest.raises(NotCompilable, match=f"it needs more than {LARGEST:,} operations"):
        trace(build())


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda w: torch.div(w, 2, rounding_mode="floor"), r"aten\.div\S* is not compiled with"),
        (lambda w: torch.quantile(w, 0.5) * w, r"aten\.\S+ is not known"),
        (lambda w: w.float().double(), r"gives numbers of torch.float32"),
        (lambda w: (w > 0).sum() * w, r"gives numbers of torch.int64"),
        (lambda w: ((w > 0) + (w > 1)) * w, r"gives numbers of torch.bool"),
        (lambda w: w[w > 0].sum() * w, r"aten\.index\S* |depends on the values"),
        (lambda w: w.argmax() * w, r"aten\.argmax\S* is not known"),
        (lambda w: w * w.max().item(), "is not known|depends on the values"),
        (lambda w: w[:, :1], r"it gives \(1, 1\) for a window \(1, 2\)"),
        (lambda w: {}["key"], "the model cannot be followed: 'key'"),
    ],
)
def test_refusals_are_one_sentence_without_code(function, message):
    with pytest.raises(NotCompilable, match=message) as caught:
        trace(of_ones_own(function))
    assert not any(word in str(caught.value) for word in ("\n", "lambda", ".py"))


def test_weights_on_the_stiefel_manifold_are_computed_once_in_a_rollout(monkeypatch):
    model, asked = ready(MODELS["vpmt"](stiefel=True)), []
    kind = torch.nn.utils.parametrize.ParametrizationList
    lists = [module for module in model.modules() if isinstance(module, kind)]
    for module in lists:
        module.register_forward_pre_hook(lambda *_: asked.append(0))
    first = torch.from_numpy(np.random.default_rng(0).normal(size=(3, 3, 2)))
    eager = vp.rollout(model, first, 60, compiled=False)
    assert len(asked) == len(lists) > 0
    fast = vp.rollout(model, first, 60, compiled=True)
    np.testing.assert_allclose(fast, eager, rtol=1e-9, atol=1e-10)
