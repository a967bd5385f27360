"""Conformally symplectic maps: the law of the form, and the friction that data give."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import vpintegrator as vp
from vpintegrator.errors import InputError
from vpintegrator.models import SymplecticGeneratingFunctionMap
from vpintegrator.nn.canonical import canonical_form
from vpintegrator.training.composed import fit_pairs
from vpintegrator.training.damping import friction_of, least
from vpintegrator.training.linear import layer_pairs
from vpintegrator.training.training_data import TrainingData

STEP, FRICTION = 0.2, 0.3


def kicked(z, friction=FRICTION):
    """A kick, a drift and a contraction of momenta: the form shrinks by exp(-friction * STEP)."""
    q, p = z[..., 0], z[..., 1]
    p = math.exp(-friction * STEP) * (p - STEP * np.sin(q))
    return np.stack([q + STEP * p, p], -1)


def orbits(count=40, times=12, noise=0.0, friction=FRICTION):
    rng = np.random.default_rng(1)
    states = [rng.uniform(-1, 1, (count, 2))]
    for _ in range(times - 1):
        states.append(kicked(states[-1], friction))
    found = np.stack(states, 1)
    return found + noise * rng.normal(size=found.shape)


def imported(path, **options):
    return vp.import_dataset(orbits(**options), path / "damped.h5", step=STEP, overwrite=True)


def random_model(dof, seed, contraction):
    torch.manual_seed(seed)
    model = SymplecticGeneratingFunctionMap(
        dim=2 * dof, degree=3, damping=True, scale=np.tile([2.0, 0.5], dof)
    )
    torch.nn.init.normal_(model.core.potential.coefficients, std=0.02)
    model.core.set_damping(contraction)
    return model


@settings(max_examples=20)
@given(st.sampled_from([1, 2]), st.integers(0, 50), st.floats(-0.5, 0.5))
def test_the_form_shrinks_by_a_constant_factor(dof, seed, contraction):
    model = random_model(dof, seed, contraction)
    z = torch.randn(1, 2 * dof, dtype=torch.float64) / 2
    D = torch.func.jacrev(lambda z: model(z[None])[0])(z[0])
    J = canonical_form(2 * dof)
    assert model.form_factor == pytest.approx(math.exp(-contraction))
    assert torch.allclose(D.mT @ J @ D, math.exp(-contraction) * J, atol=1e-12)
    assert torch.allclose(model.inverse(model(z)), z, atol=1e-12)
    assert not model.symplectic and not model.volume_preserving


def test_the_friction_of_exact_data_is_found(tmp_path):
    data = imported(tmp_path)
    model = vp.models.build(data.system, "sgf", damping=True, degree=8)
    history = vp.train(model, data, optimizer="linear")
    found = friction_of(model)
    assert abs(found.contraction / STEP - FRICTION) < 1e-6
    assert history.test_error < 1e-6
    plain = vp.models.build(data.system, "sgf", degree=8)
    assert vp.train(plain, data, optimizer="linear").test_error > 1e-3


def test_noise_does_not_bias_the_friction(tmp_path):
    data = imported(tmp_path, noise=1e-2, count=200)
    model = vp.models.build(data.system, "sgf", damping=True, degree=4)
    vp.train(model, data, optimizer="linear")
    found = friction_of(model)
    assert found.standard_error < 0.03 * FRICTION * STEP
    assert abs(found.contraction - FRICTION * STEP) < 3 * found.standard_error


def test_a_rotation_by_nearly_half_a_turn(tmp_path):
    c, s = math.cos(3.0), math.sin(3.0)
    states = [np.random.default_rng(0).uniform(-1, 1, (30, 2))]
    for _ in range(5):
        q, p = states[-1].T
        p = p - 0.05 * q**3
        states.append(0.95 * np.stack([c * q + s * p, c * p - s * q], -1))
    path = tmp_path / "turn.h5"
    data = TrainingData(vp.import_dataset(np.stack(states, 1), path, step=1.0))
    model = vp.models.build(data.dataset.system, "sgf", damping=True, degree=6)
    data.normalise(model)
    fit = fit_pairs(model, layer_pairs(model, data, 100), far=True)
    assert fit.error < 1e-4
    assert abs(model.form_factor - 0.95**2) < 1e-6


def test_machine_code_and_c(tmp_path):
    model = random_model(1, 0, 0.1)
    z = np.random.default_rng(0).uniform(-1, 1, (5, 1, 2))
    expected = model(torch.from_numpy(z)).detach().numpy()
    machine = vp.compiled.compile_model(model, 5, z)
    states, _ = machine.advance(z.copy(), 1)
    assert np.allclose(states[:, -1:], expected, atol=1e-13)
    vp.export(model, tmp_path / "step.c")  # compiled and compared with the model
    vp.save(model, tmp_path / "m.safetensors")
    assert vp.load(tmp_path / "m.safetensors").form_factor == pytest.approx(math.exp(-0.1))


@pytest.mark.parametrize(
    "arguments",
    [
        {"reversing_symmetries": [[[1.0, 0.0], [0.0, -1.0]]]},
        {"repeats": 2},
        {"hamiltonian": "z[1]**2/2 + z[0]**2/2"},
        {"periodic": {1: 1.0}},
        {"conserved": [2], "scaling": [2], "dim": 3},
    ],
)
def test_what_contradicts_damping(arguments):
    with pytest.raises(InputError, match="damping = true admits no"):
        SymplecticGeneratingFunctionMap(**({"dim": 2} | arguments), damping=True)


def test_data_without_friction_have_none(tmp_path):
    data = imported(tmp_path, noise=1e-3, friction=0.0)
    model = vp.models.build(data.system, "sgf", damping=True, degree=4)
    TrainingData(data).normalise(model)
    vp.train(model, data, optimizer="linear")
    found = friction_of(model)
    assert abs(found.contraction) < 3 * found.standard_error


def test_a_function_without_minimum():
    assert least(lambda x: math.inf, 0.5) == (0.5, 0.0)
    assert least(lambda x: 1.0, 0.5) == (0.5, 0.0)
    place, _ = least(lambda x: (x - 100.0) ** 2 + 1, 0.5)
    assert place == pytest.approx(100.0)
