"""Models that read parameters, or components that stay as they are, beside what they move."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import vpintegrator as vp
from tests.nn.laws import assert_close, determinant_error, randomise, sample, symplecticity_defect
from vpintegrator.compiled import CompiledModel
from vpintegrator.errors import InputError
from vpintegrator.models import ARCHITECTURES
from vpintegrator.models.arguments import arguments_of


def diagonal(*signs):
    return torch.diag(torch.tensor(signs)).tolist()


FLIP, BACK = diagonal(1.0, 1, -1, -1, 1, 1), diagonal(1.0, 1, 1, 1, -1, 1)
POLYNOMIAL = {"functions": "polynomial", "degree": 3}
N, M = 4, 2  # components, and parameters, of which the first is a rate
MODELS = {
    "vpff, polynomials": ("vpff", POLYNOMIAL | {"vanishing": [0]}),
    "vpff, to and fro": ("vpff", POLYNOMIAL | {"sweep": "symmetric", "split": "halves"}),
    "vpff, neurons": ("vpff", {"width": 5, "vanishing": [0]}),
    "spff, polynomials": ("spff", POLYNOMIAL | {"vanishing": [0]}),
    "spff, formulas": ("spff", POLYNOMIAL | {"expressions": ["sin(z[0]*z[5])"]}),
    "spff, neurons": ("spff", {"width": 5, "vanishing": [0]}),
}


def built(name, seed=1, **others):
    torch.manual_seed(seed)
    model, arguments = MODELS[name]
    given_ = {"dim": N, "parameters": M, "depth": 1, "reversing_symmetries": [FLIP, BACK]}
    made = vp.models.ARCHITECTURES[model](**given_ | arguments | others)
    made.set_parameter_normalisation(torch.tensor([[0.4, 0.3], [0.6, 0.9]]).double())
    made.set_normalisation([0.1, 0.2, 0.3, 0.4], [1, 1.2, 0.9, 0.7])
    randomise(made.core, 0.1, seed)
    return made


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=4)
@given(st.integers(0, 10**6))
def test_what_models_keep(name, seed):
    """Volume, form, inverse and reversibility at all parameters."""
    model = built(name, seed)
    window = sample(model.window, N, seed=seed, scale=0.5)
    k = 0.5 * sample(M, seed=seed + 1)
    y = model(window, k)
    assert_close(model.inverse(y, k), window, 1e-11)
    assert model.structure.keeps_volume and determinant_error(lambda z: model(z, k), window) < 1e-11
    assert model.structure.is_symplectic == model.name.startswith("sp")
    if model.structure.is_symplectic:  # up to the factor that normalisation brings
        assert symplecticity_defect(lambda z: model(z, k), window) <= 1e-12
    if model.arguments.get("vanishing"):
        assert_close(model(window, k * torch.tensor([0.0, 1.0])), window, 1e-15)
    for rho in model.reversing_symmetries:
        own, turned = rho[:N, :N], k @ rho[N:, N:].mT
        assert_close(model(y.flip(-2) @ own.mT, turned).flip(-2) @ own.mT, window, 1e-11)
    assert len(model.structure.reversing_symmetries) == 1  # the other one acts on parameters


@pytest.mark.parametrize("name", MODELS)
def test_single_precision_and_files(name, tmp_path):
    model, z, k = built(name), sample(5, 1, N), sample(M)
    vp.save(model, tmp_path / "model.safetensors")
    again = vp.load(tmp_path / "model.safetensors")
    assert again.arguments == model.arguments
    assert_close(again(z, k), model(z, k), 0)
    single = built(name, dtype="float32")
    assert_close(single(z.float(), k.float()).double(), model(z, k), 1e-4)


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
    z = sample(5, model.window, N)
    x = torch.cat([z, k.expand(5, model.window, M)], -1)
    y = model(x)
    assert torch.equal(y[..., N:], x[..., N:])
    assert (model(torch.cat([z, -x[..., N:]], -1)) - y)[..., :N].abs().max() > 1e-6
    normalised = (k - model.shift[N:]) / model.scale[N:]
    assert_close(family(z, normalised), y[..., :N], 1e-12)
    states, _ = CompiledModel(model, 5).predict(x.numpy(), 1)
    assert_close(torch.from_numpy(states), model.predict(x).detach(), 1e-11)


@pytest.mark.parametrize("arguments", [{}, {"window": 3, "width": None}])
def test_a_residual_network_at_parameters_is_a_residual_network(arguments):
    whole = vp.models.ResidualNetwork(dim=4, parameters=2, **arguments)
    plain = vp.models.ResidualNetwork(dim=4, **arguments)
    k = torch.tensor([0.3, -0.7], dtype=torch.float64)
    plain.core.load_state_dict(whole.core.at(k).state_dict())
    z = sample(5, plain.window, N)
    assert_close(plain(z), whole(z, k), 1e-13)


@pytest.mark.parametrize(
    ("arguments", "given_", "message"),
    [
        ({}, torch.zeros(2), "takes no parameters"),
        ({"parameters": 2}, None, "is a family: give 2 coefficients"),
        ({"parameters": 2}, torch.zeros(3), "axes"),
    ],
)
def test_parameters_that_do_not_fit(arguments, given_, message):
    model = vp.models.VolumePreservingFeedForward(dim=3, **arguments)
    with pytest.raises((InputError, RuntimeError), match=message):
        model(torch.zeros(5, 1, 3).double(), given_)


def test_a_family_moves_all_components():
    with pytest.raises(InputError, match="a family move all components"):
        vp.models.VolumePreservingFeedForward(dim=3, parameters=1, conserved=[2])
    with pytest.raises(InputError, match=r"the last of 3 components, .*, not \[0\]"):
        vp.models.VolumePreservingFeedForward(dim=3, conserved=[0])
