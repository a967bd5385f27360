"""Models of states (z, k) whose last components k are constants of motion."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import vpintegrator as vp
from tests.nn.laws import assert_close, determinant_error, randomise, sample, symplecticity_defect
from vpintegrator.compiled import compile_model


def diagonal(*signs):
    return torch.diag(torch.tensor(signs)).tolist()


FLIP, BACK = diagonal(1.0, 1, -1, -1, 1, 1), diagonal(1.0, 1, 1, 1, -1, 1)
POLYNOMIAL = {"functions": "polynomial", "degree": 3}
N, M = 4, 2  # components that move, and that stay; of these the first is a rate
# name, arguments, whether it can be reversible for both symmetries
MODELS = {
    "vpff, polynomials": ("vpff", POLYNOMIAL | {"rates": [4]}),
    "vpff, to and fro": ("vpff", POLYNOMIAL | {"sweep": "symmetric", "split": "halves"}),
    "vpff, neurons": ("vpff", {"width": 5}),
    "vpmt, neurons": ("vpmt", {"width": 5, "attention_width": 4, "prediction_window": 1}),
    "vpmt, polynomials": ("vpmt", POLYNOMIAL | {"attention_width": 4}),
    "spff, polynomials": ("spff", POLYNOMIAL | {"rates": [4]}),
    "spff, formulas": ("spff", POLYNOMIAL | {"expressions": ["sin(z[0]*z[5])"]}),
    "spff, neurons": ("spff", {"width": 5}),
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
@settings(max_examples=8)
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
        model.volume_preserving
        and determinant_error(lambda z: model(extended(z, k))[..., :N], window) < 1e-11
    )
    assert model.symplectic == model.name.startswith("sp")
    if model.symplectic:  # up to the factor that normalisation brings
        assert symplecticity_defect(lambda z: model(extended(z, k))[..., :N], window) <= 1e-12
    for rho in model.reversing_symmetries:
        image = model((y.flip(-2)) @ rho.mT).flip(-2) @ rho.mT
        assert_close(image, x, 1e-11)


@pytest.mark.parametrize("name", MODELS)
def test_single_precision_machine_code_and_files(name, tmp_path):
    model = built(name)
    x = torch.cat([sample(5, model.window, N), sample(M).expand(5, model.window, M)], -1)
    states, _ = compile_model(model, 5).advance(x.numpy(), 1)
    assert_close(torch.from_numpy(states), model.predict(x).detach(), 1e-11)
    vp.save(model, tmp_path / "model.safetensors")
    again = vp.load(tmp_path / "model.safetensors")
    assert again.arguments == model.arguments
    assert_close(again(x), model(x), 0)
    single = built(name, dtype="float32")
    assert_close(single(x.float()).double(), model(x), 1e-4)
