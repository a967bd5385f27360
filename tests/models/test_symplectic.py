"""Symplectic models: the form is kept whatever the weights, on states and on windows."""

import contextlib

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import vpintegrator as vp
from tests.models.test_every_layer import choices
from tests.nn.laws import assert_close, randomise, sample, symplecticity_defect
from vpintegrator import nn
from vpintegrator.compiled import CompiledModel
from vpintegrator.errors import InputError
from vpintegrator.models import (
    ARCHITECTURES,
    SymplecticFeedForward,
    SymplecticGeneratingFunctionMap,
    SymplecticTransformer,
)
from vpintegrator.models.arguments import arguments_of

MOMENTA = torch.diag(torch.tensor([1.0, 1, -1, -1])).tolist()
POSITIONS = torch.diag(torch.tensor([-1.0, -1, 1, 1])).tolist()
EXCHANGE = [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, -1], [0, 0, -1, 0]]
ALL = {"reversing_symmetries": [MOMENTA, POSITIONS, EXCHANGE]}
POLYNOMIAL = {"functions": "polynomial", "degree": 3}
MODELS = {
    "G-SympNet": (SymplecticFeedForward, {}),
    "LA-SympNet": (SymplecticFeedForward, {"layer": "linear-activation"}),
    "HenonNet": (SymplecticFeedForward, {"layer": "henon", "width": 4}),
    "Henon maps of polynomials": (SymplecticFeedForward, {"layer": "henon", **POLYNOMIAL}),
    "polynomials": (SymplecticFeedForward, POLYNOMIAL),
    "functions of the state": (
        SymplecticFeedForward,
        {**POLYNOMIAL, "expressions": ["sigmoid(z[0])", "exp(z[0]*z[1])", "cos(z[3])"]},
    ),
    "polynomials of angles": (SymplecticFeedForward, {"periodic": [(0, 6.0)], **POLYNOMIAL}),
    "reversible": (SymplecticFeedForward, {**ALL, "width": 4}),
    "reversible polynomials": (SymplecticFeedForward, {**ALL, **POLYNOMIAL}),
    "reversible functions": (
        SymplecticFeedForward,
        {**ALL, **POLYNOMIAL, "expressions": ["tanh(z[0] + z[1])", "exp(-z[2]**2 - z[3]**2)"]},
    ),
    "generating function": (SymplecticGeneratingFunctionMap, {**ALL, "degree": 4}),
    "rotations": (SymplecticTransformer, {**ALL, **POLYNOMIAL}),
}


def made(name, seed, scale=0.5):
    kind, arguments = MODELS[name]
    torch.manual_seed(seed)
    size = {"depth": 1} if "depth" in arguments_of(kind) else {}
    model = randomise(kind(dim=4, **size, **arguments), scale, seed)
    model.set_normalisation(sample(4, seed=seed), sample(4, seed=seed).abs() + 0.5)
    return solvable(model)


def solvable(model):
    """With small weights, so that generating functions give maps."""
    if model.linear_in_parameters:
        model.adapt(3 * sample(50, model.dim))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(0.02)
    return model


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=8)
@given(seed=st.integers(0, 10**6))
def test_the_form_is_kept_at_any_weights(name, seed):
    model = made(name, seed)
    assert model.structure.is_symplectic
    assert model.structure.keeps_volume
    X = model.shift + model.scale * sample(model.window, 4, seed=seed, scale=0.5)
    assert symplecticity_defect(model, X) <= 1e-12
    Y = model(X)
    assume(float(Y.detach().abs().max()) < 1e6)  # polynomials of polynomials may overflow
    assert_close(model.inverse(Y), X, 1e-10 * max(1.0, float(Y.detach().abs().max())))


def test_every_model_that_says_symplectic_is():
    """Each choice of each option of every architecture; those below are examples of more."""
    claiming = set()
    small = {"depth": 1, "degree": 3}  # polynomials of polynomials of high degree overflow
    for architecture in ARCHITECTURES.values():
        size = {name: small[name] for name in small if name in arguments_of(architecture)}
        for arguments in choices(architecture):
            with contextlib.suppress(InputError):  # a choice that needs another
                torch.manual_seed(0)
                model = solvable(architecture(dim=4, **{**size, **arguments}))
                if model.structure.is_symplectic:
                    claiming.add(architecture)
                    randomise(model, 0.5, 1)
                    X = sample(model.window, 4, scale=0.5)
                    assert symplecticity_defect(model, X) <= 1e-12, (architecture, arguments)
    assert claiming == {kind for kind, _ in MODELS.values()}, "add examples of it to MODELS"


@pytest.mark.parametrize(
    "name",
    [
        "reversible",
        "reversible polynomials",
        "reversible functions",
        "generating function",
        "rotations",
    ],
)
def test_the_map_is_reversible_for_every_symmetry(name):
    model = made(name, 3, 0.3)
    X = sample(5, model.window, 4)
    for rho in ALL["reversing_symmetries"]:
        R = nn.Reflection(rho, dtype=torch.float64)
        assert_close(R(model(R(model(X)))), X)


@pytest.mark.parametrize(
    "name",
    [
        "LA-SympNet",
        "HenonNet",
        "functions of the state",
        "polynomials of angles",
        "generating function",
    ],
)
def test_machine_code_gives_the_same_map(name):
    model = made(name, 4, 0.2)
    X = model.shift + 0.3 * sample(6, model.window, 4)
    states, _ = CompiledModel(model, 6).predict(X.numpy(), 1)
    assert_close(torch.from_numpy(states), model.predict(X).detach(), 1e-11)


@pytest.mark.parametrize("kind", [SymplecticFeedForward, SymplecticTransformer])
def test_models_grow_from_the_map_they_are(kind):
    torch.manual_seed(0)
    model = randomise(kind(dim=4, depth=1, **ALL, **POLYNOMIAL), 0.1, 1)
    larger = vp.prolong(model, depth=2, degree=5)
    X = sample(4, model.window, 4)
    assert_close(larger(X), model(X), 1e-14)
    assert larger.structure.is_symplectic


def test_the_functions_of_a_system_that_are_of_one_half_enter_its_potential():
    oscillators = vp.load_system("coupled-oscillators")
    model = vp.models.build(oscillators, "spff", {"functions": "system", "degree": 2, "depth": 1})
    layer = vp.models.growth.layers(model)[0]
    assert layer.kinetic.formulas is None
    assert layer.potential.formulas.formulas.texts == ["sigmoid(z[0])"]
    # linear and quadratic terms in q0, q1 and the sigmoid
    assert layer.potential.coefficients.numel() == 9


def test_normalisation_keeps_the_form_and_powers_of_two():
    model = SymplecticFeedForward(dim=4, periodic=[(1, 2 * torch.pi)], **POLYNOMIAL)
    model.set_normalisation([0, 0, 0, 0], [2.0, 9.0, 4.0, 0.5])
    assert_close(model.scale, torch.tensor([2.0, 1.0, 0.25, 0.5], dtype=torch.float64), 0)


@pytest.mark.thorough
def test_a_symplectic_model_learns_and_its_rollout_says_so(tmp_path):
    data = vp.generate("pendulum", tmp_path / "pendulum.h5", count=30, steps=20)
    model = vp.models.build(
        data.system, "spff", {"functions": "polynomial", "degree": 6, "depth": 2}
    )
    history = vp.train(model, data, epochs=60, compiled=False)
    assert history.test_error < 1e-6
    report = vp.compare(model, "rk4", steps=20, trajectories=4, compiled=False)
    assert report.runs["spff"].structure.words == ("symplectic", "reversible")
    assert report.runs["spff"].symplecticity < 1e-12 < report.runs["rk4"].symplecticity
