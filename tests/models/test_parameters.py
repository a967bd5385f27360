"""Models that read parameters, or components that stay as they are, beside what they move."""

import pytest
import torch

import vpintegrator as vp
from tests.nn.laws import assert_close, randomise, sample
from vpintegrator.compiled import CompiledModel
from vpintegrator.errors import InputError
from vpintegrator.models import ARCHITECTURES
from vpintegrator.models.arguments import arguments_of


@pytest.mark.parametrize("name", ["vpff", "spff", "sgf", "vpgf", "resnet"])
def test_every_architecture_leaves_constants_as_they_are(name):
    """And those without structure read them all the same, as they read parameters."""
    torch.manual_seed(0)
    declared = arguments_of(ARCHITECTURES[name])
    size = {"depth": 1} if "depth" in declared else {"degree": 3}
    model = ARCHITECTURES[name](dim=6, conserved=[4, 5], **size).eval()
    family = ARCHITECTURES[name](dim=4, parameters=2, **size).eval()
    assert model.arguments["conserved"] == [4, 5]
    assert "conserved" not in family.arguments and family.arguments["parameters"] == 2
    randomise(model.core, 0.3, 1)
    family.core.load_state_dict(model.core.state_dict())
    model.set_normalisation(0.1, [1, 1.1, 0.9, 0.7, 0.6, 1.3])
    family.set_normalisation(0.1, [1, 1.1, 0.9, 0.7])
    k = torch.tensor([0.3, -0.7], dtype=torch.float64)
    z = sample(5, model.window, 4)
    x = torch.cat([z, k.expand(5, model.window, 2)], -1)
    y = model(x)
    assert torch.equal(y[..., 4:], x[..., 4:])
    assert (model(torch.cat([z, -x[..., 4:]], -1)) - y)[..., :4].abs().max() > 1e-6
    normalised = (k - model.shift[4:]) / model.scale[4:]
    assert_close(family(z, normalised), y[..., :4], 1e-12)
    states, _ = CompiledModel(model, 5).predict(x.numpy(), 1)
    assert_close(torch.from_numpy(states), model.predict(x).detach(), 1e-11)


@pytest.mark.parametrize("arguments", [{}, {"window": 3, "width": None}])
def test_a_residual_network_at_parameters_is_a_residual_network(arguments):
    whole = vp.models.ResidualNetwork(dim=4, parameters=2, **arguments)
    plain = vp.models.ResidualNetwork(dim=4, **arguments)
    k = torch.tensor([0.3, -0.7], dtype=torch.float64)
    plain.core.load_state_dict(whole.core.at(k).state_dict())
    z = sample(5, plain.window, 4)
    assert_close(plain(z), whole(z, k), 1e-13)


@pytest.mark.parametrize(
    ("arguments", "parameters", "message"),
    [
        ({}, torch.zeros(2), "takes no parameters"),
        ({"parameters": 2}, None, "is a family: give 2 coefficients"),
        ({"parameters": 2}, torch.zeros(3), "axes"),
    ],
)
def test_parameters_that_do_not_fit(arguments, parameters, message):
    model = vp.models.VolumePreservingFeedForward(dim=3, **arguments)
    with pytest.raises((InputError, RuntimeError), match=message):
        model(torch.zeros(4, 1, 3, dtype=torch.float64), parameters)
