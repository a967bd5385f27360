"""Every layer of vpintegrator.nn is in some model that vp-train can be asked for."""

import contextlib
import inspect

import pytest
import torch

import vpintegrator as vp
from tests.nn.laws import SIGN_FLIPS, assert_close, sample
from vpintegrator import models, nn
from vpintegrator.compiled import CompiledModel
from vpintegrator.errors import InputError
from vpintegrator.models import ARCHITECTURES, StandardTransformer
from vpintegrator.models.arguments import arguments_of

TRANSFORMERS = [
    {"block": block, "attention": attention}
    for block in ("residual", "encoder")
    for attention in ("multihead", "general", "multiplicative", "additive")
]


def choices(architecture):
    """Each choice of each option alone, the others as they are by default."""
    yield {}
    for name, field in arguments_of(architecture).items():
        flags = [True] if bool in field.kinds else []
        for value in (*field.choices, *flags):
            yield {name: value}


def test_every_layer_is_in_a_model():
    layers = {
        value
        for name in nn.__all__
        if inspect.isclass(value := getattr(nn, name)) and issubclass(value, torch.nn.Module)
    }
    made = [
        models.VolumePreservingFeedForward(dim=3, reversing_symmetries=SIGN_FLIPS[:1]),
        models.VolumePreservingFeedForward(dim=3, functions="polynomial", bases=2),
        models.SymplecticGeneratingFunctionMap(dim=2, hamiltonian="z[1]**2/2 - cos(z[0])"),
        models.SplittingMap(dim=2, hamiltonian="z[1]**2/2 - cos(z[0])"),
    ]
    for architecture in ARCHITECTURES.values():
        for arguments in choices(architecture):
            with contextlib.suppress(InputError):  # a choice that needs another
                made.append(architecture(dim=4, **arguments))
    layers -= {kind for model in made for part in model.modules() for kind in type(part).__mro__}
    assert layers == set(), "build them into a model, as a choice of one of its options"


@pytest.mark.parametrize("arguments", TRANSFORMERS)
def test_transformers_are_saved_and_compiled(arguments, tmp_path):
    torch.manual_seed(0)
    model = StandardTransformer(dim=2, depth=1, window=2, inner=3, **arguments).eval()
    normed = any(isinstance(part, torch.nn.LayerNorm) for part in model.modules())
    assert normed == (arguments["block"] == "encoder")
    X = sample(5, 2, 2)
    vp.save(model, tmp_path / "a.safetensors")
    assert_close(vp.load(tmp_path / "a.safetensors")(X), model(X), 0)
    states, _ = CompiledModel(model, 5).predict(X.numpy(), 1)
    assert_close(torch.from_numpy(states), model.predict(X), 1e-11)


def test_the_published_block_has_the_sizes_of_torch():
    model = StandardTransformer(
        dim=6,
        width=6,
        heads=2,
        depth=1,
        block="encoder",
        attention="general",
        activation="relu",
        inner=9,
        positions=False,
    )
    theirs = torch.nn.TransformerEncoderLayer(6, 2, 9, 0.0)
    count = [sum(p.numel() for p in module.parameters()) for module in (model, theirs)]
    assert count[0] == count[1]
