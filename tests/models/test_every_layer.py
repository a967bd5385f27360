"""Layers in models: those of the package, and a layer of one's own."""

import contextlib

import torch

from tests.models.cases import choices
from tests.nn.laws import SIGN_FLIPS, assert_close, dim_of, examples, made, sample
from tests.nn.test_laws import Twist
from vpintegrator import models, nn
from vpintegrator.compiled import CompiledModel
from vpintegrator.errors import InputError
from vpintegrator.models import ARCHITECTURES


def layers_of_models():
    """The layers, and potentials, that some choice of an option of a model builds."""
    built = [
        models.VolumePreservingFeedForward(dim=3, reversing_symmetries=SIGN_FLIPS[:1]),
        models.VolumePreservingFeedForward(dim=3, functions="polynomial", bases=2),
        models.SymplecticGeneratingFunctionMap(dim=2, hamiltonian="z[1]**2/2 - cos(z[0])"),
        models.SplittingMap(dim=2, hamiltonian="z[1]**2/2 - cos(z[0])"),
    ]
    for architecture in ARCHITECTURES.values():
        for arguments in choices(architecture):
            with contextlib.suppress(InputError):  # a choice that needs another
                built.append(architecture(dim=4, **arguments))
    return {kind for model in built for part in model.modules() for kind in type(part).__mro__}


def cores():
    """A network of a layer of one's own, and the examples of layers that no model has."""
    yield nn.Composition(Twist(), nn.AdditiveCoupling(2, dtype=torch.float64)), 2
    known = layers_of_models()
    for name in examples():
        layer = made(name).double()
        if type(layer) not in known and not layer.parameter_count:
            yield layer, dim_of(layer)


def test_layers_without_a_model_are_compiled_as_the_core_of_one():
    """As users build them in; the others are compiled with their models."""
    for core, dim in cores():
        model = models.Model(core, dim, window=3).eval()
        X = sample(5, 3, dim)
        states, _ = CompiledModel(model, 5).predict(X.numpy(), 1)
        assert_close(torch.from_numpy(states), model.predict(X), 1e-11)
