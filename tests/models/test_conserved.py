"""Models of states (z, k) whose last components k are constants of motion."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import vpintegrator as vp
from tests.nn.laws import assert_close, determinant_error, randomise, sample, symplecticity_defect
from vpintegrator.compiled import CompiledModel
from vpintegrator.models import ARCHITECTURES
from vpintegrator.models.arguments import arguments_of


def diagonal(*signs):
    return torch.diag(torch.tensor(signs)).tolist()


FLIP, BACK = diagonal(1.0, 1, -1, -1, 1, 1), diagonal(1.0, 1, 1, 1, -1, 1)
POLYNOMIAL = {"functions": "polynomial", "degree": 3}
N, M = 4, 2  # components that move, and that stay; of these the first is a rate
# name, arguments, whether it can be reversible for both symmetries
MODELS = {
    "vpff, polynomials": ("vpff", POLYNOMIAL | {"scaling": [4]}),
    "vpff, to and fro": ("vpff", POLYNOMIAL | {"sweep": "symmetric", "split": "halves"}),
    "vpff, neurons": ("vpff", {"width": 5, "scaling": [4]}),
    "spff, polynomials": ("spff", POLYNOMIAL | {"scaling": [4]}),
    "spff, formulas": ("spff", POLYNOMIAL | {"expressions": ["sin(z[0]*z[5])"]}),
    "spff, neurons": ("spff", {"width": 5, "scaling": [4]}),
}


def built(name, seed=1, **others):
    torch.manual_seed(seed)
    model, arguments = MODELS[name]
    given_ = {"dim": N + M, "conserved": [4, 5], "depth": 1, "reversing_symmetries": [FLIP, BACK]}
    made = vp.models.ARCHITECTURES[model](**given_ | arguments | others)
    made.set_normalisation([0.1, 0.2, 0.3, 0.4, 0.5, 0.6], [1, 1.2, 0.9, 0.7, 0.5, 0.25])
    randomise(made.core, 0.1, seed)
    return made


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=4)
@given(st.integers(0, 10**6))
def test_what_models_keep(name, seed):
    """Volume, form, inverse and reversibility at every k, and k itself bit by bit."""
    model = built(name, seed)
    window = sample(model.window, N, seed=seed, scale=0.5)
    k = 0.5 * sample(M, seed=seed + 1)

    def extended(z, k):
        return torch.cat([z, k.expand(*z.shape[:-1], M)], -1)

    x = extended(window, k)
    y = model(x)
    assert torch.equal(y[..., N:], x[..., N:])
    assert_close(model.inverse(y), x, 1e-11)
    assert (
        model.structure.keeps_volume
        and determinant_error(lambda z: model(extended(z, k))[..., :N], window) < 1e-11
    )
    assert model.structure.is_symplectic == model.name.startswith("sp")
    if model.structure.is_symplectic:  # up to the factor that normalisation brings
        assert symplecticity_defect(lambda z: model(extended(z, k))[..., :N], window) <= 1e-12
    if model.arguments.get("scaling"):
        still = x * torch.tensor([1.0] * N + [0.0, 1.0])
        assert_close(model(still), still, 1e-15)
    for rho in model.reversing_symmetries:
        image = model((y.flip(-2)) @ rho.mT).flip(-2) @ rho.mT
        assert_close(image, x, 1e-11)


@pytest.mark.parametrize("name", MODELS)
def test_single_precision_machine_code_and_files(name, tmp_path):
    model = built(name)
    x = torch.cat([sample(5, model.window, N), sample(M).expand(5, model.window, M)], -1)
    states, _ = CompiledModel(model, 5).predict(x.numpy(), 1)
    assert_close(torch.from_numpy(states), model.predict(x).detach(), 1e-11)
    vp.save(model, tmp_path / "model.safetensors")
    again = vp.load(tmp_path / "model.safetensors")
    assert again.arguments == model.arguments
    assert_close(again(x), model(x), 0)
    single = built(name, dtype="float32")
    assert_close(single(x.float()).double(), model(x), 1e-4)


@pytest.mark.parametrize("name", ["vpff", "spff", "sgf", "vpgf", "resnet"])
def test_every_architecture_leaves_constants_as_they_are(name):
    """And those without structure read them all the same; at given values the map is one of z."""
    torch.manual_seed(0)
    declared = arguments_of(ARCHITECTURES[name])
    size = {"depth": 1} if "depth" in declared else {"degree": 3}
    model = ARCHITECTURES[name](dim=6, conserved=[4, 5], **size).eval()
    assert model.arguments["conserved"] == [4, 5] and "conserved" in declared
    assert "conserved" not in ARCHITECTURES[name](dim=4).arguments
    randomise(model.core, 0.3, 1)
    model.set_normalisation(0.1, [1, 1.1, 0.9, 0.7, 0.6, 1.3])
    k = torch.tensor([0.3, -0.7], dtype=torch.float64)
    z = sample(5, model.window, N)
    x = torch.cat([z, k.expand(5, model.window, M)], -1)
    y = model(x)
    assert torch.equal(y[..., N:], x[..., N:])
    assert (model(torch.cat([z, -x[..., N:]], -1)) - y)[..., :N].abs().max() > 1e-6
    values = (k - model.shift[N:]) / model.scale[N:]
    plain = model.core.at(values)(model.coordinates(x)[..., :N])
    assert_close(plain * model.scale[:N] + model.shift[:N], y[..., :N], 1e-12)
    if not model.structure.keeps_volume:  # the others are compiled above
        states, _ = CompiledModel(model, 5).predict(x.numpy(), 1)
        assert_close(torch.from_numpy(states), model.predict(x).detach(), 1e-11)


@pytest.mark.parametrize("arguments", [{}, {"window": 3, "width": None}])
def test_a_residual_network_at_values_is_a_residual_network(arguments):
    whole = vp.models.ResidualNetwork(dim=6, conserved=[4, 5], **arguments)
    plain = vp.models.ResidualNetwork(dim=4, **arguments)
    k = torch.tensor([0.3, -0.7], dtype=torch.float64)
    plain.core.load_state_dict(whole.core.at(k).state_dict())
    z = sample(5, plain.window, N)
    x = torch.cat([z, k.expand(5, plain.window, M)], -1)
    assert_close(plain(z), whole(x)[..., :N], 1e-13)
