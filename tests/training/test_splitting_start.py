"""Polynomials that begin as a splitting: the classical method itself, before any training."""

import math

import numpy as np
import pytest
import torch

import vpintegrator as vp
from tests.training.conftest import images
from vpintegrator.nn.symmetry import symmetry_group
from vpintegrator.training.initial_scheme import compositions, separable_blocks, start_as_splitting
from vpintegrator.training.training_data import TrainingData


@pytest.fixture(scope="module", params=["henon-heiles", "duffing"])
def data(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("splitting") / f"{request.param}.h5"
    dataset = vp.generate(request.param, path, count=20, steps=10, step=0.05)
    return TrainingData(dataset, equations=True)


def made(data, name="auto", reversible=None, chart=None, **arguments):
    arguments = {"functions": "polynomial", **arguments}
    system = data.dataset.system
    model = vp.models.build(system, name, arguments, reversible=reversible, chart=chart)
    data.normalise(model)
    return model


def body_model(data, depth):
    return made(data, degree=2, depth=depth, sweep="symmetric")


def composed(system, z, h, parts, steps=1):
    """Half steps of some components after the others, and back, from states (state, dim)."""
    z = z.copy()
    for part in [*parts, *parts[::-1]] * steps:
        z[:, part] += h / steps / 2 * system.vector_field(z)[:, part]
    return z


@pytest.mark.parametrize("depth", [1, 3])
def test_a_reversible_model_begins_as_stoermer_verlet(data, depth):
    """With the kick first, where the method of the package begins with the drift."""
    system, h, n = data.system, data.step, data.dataset.dim // 2
    model = made(data, "spff", depth=depth, degree=4 if n == 2 else 12)
    assert start_as_splitting(model, data).residual < 1e-6
    states = data.dataset.states("test")[:, 0]
    expected = composed(system, states, h, [slice(n, None), slice(n)], 2 * depth - 1)
    atol = 1e-6 * h * np.abs(states).max()
    np.testing.assert_allclose(images(model, states), expected, rtol=0, atol=atol)


def test_a_model_that_errs_less_stays_as_it_is(data):
    model = made(data, "spff", degree=12, depth=2)
    vp.train(model, data, epochs=5, progress=False)
    own = [parameter.clone() for parameter in model.parameters()]
    assert start_as_splitting(model, data).residual == math.inf
    assert all(map(torch.equal, own, model.parameters()))


def test_neurons_and_other_layers_begin_near_the_identity(data):
    for name in ("spff", "vpff"):
        model = made(data, name, functions="neurons")
        assert start_as_splitting(model, data).residual == math.inf


def test_measured_states_are_fitted_by_their_differences(tmp_path):
    t = np.arange(200) * 0.1
    phase = np.linspace(0, 6, 12)[:, None] + t
    states = np.stack([np.cos(phase), -np.sin(phase)], -1)
    dataset = vp.data.import_dataset(states, tmp_path / "a.h5", step=0.1, components=["q", "p"])
    data = TrainingData(dataset)
    model = vp.models.SymplecticFeedForward(dim=2, functions="polynomial", degree=2, depth=2)
    data.normalise(model)
    before = data.test_error(model)[0]
    assert start_as_splitting(model, data).residual < 1e-2
    assert model.choices[-1].endswith("of differences of the states")
    assert data.test_error(model)[0] < 0.2 * before


@pytest.mark.parametrize("reversible", [True, False])
@pytest.mark.parametrize("parts", [[0, 1] * 16, [0, 1, 2, 1] * 16, [0, 1, 2, 3, 2, 1] * 16])
def test_every_composition_moves_every_part_by_a_step(parts, reversible):
    found = list(compositions(parts, reversible))
    assert found
    for _, shares in found:
        for part in {*parts}:
            moved = sum(h for h, own in zip(shares, parts, strict=True) if own == part)
            assert moved == pytest.approx(0.5 if reversible else 1.0, abs=1e-12)


@pytest.fixture(scope="module")
def body(tmp_path_factory):
    path = tmp_path_factory.mktemp("body") / "rigid-body.h5"
    return TrainingData(vp.generate("rigid-body", path, count=20, steps=4), equations=True)


def test_a_volume_preserving_model_begins_as_the_method_itself(body):
    model = body_model(body, 1)
    beginning = start_as_splitting(model, body)
    assert beginning.method == model.record.initial_scheme == "strang-splitting"
    assert beginning.residual < 1e-12
    z = body.dataset.states("test")[:, 0]
    expected = composed(body.system, z, body.step, [2, 1, 0])
    assert np.abs(images(model, z) - expected).max() < 1e-12


def test_as_many_steps_as_fit(body):
    errors = []
    for depth in (1, 2, 4):
        model = body_model(body, depth)
        beginning = start_as_splitting(model, body)
        assert beginning.method.endswith("strang-splitting")
        assert any("training begins as" in line for line in model.choices)
        errors.append(beginning.error)
    # of second order, by 1, 3 and 7 steps
    assert errors[0] / errors[1] == pytest.approx(9, rel=0.2)
    assert errors[1] / errors[2] == pytest.approx((7 / 3) ** 2, rel=0.2)


def test_shears_in_rotated_bases_follow_a_field_that_those_along_coordinates_cannot(tmp_path):
    data = TrainingData(vp.generate("hill-vortex", tmp_path / "a.h5", count=20, steps=4), True)
    errors = {}
    for bases in (1, 2):
        sizes = {"degree": 2, "depth": 3, "sweep": "symmetric", "bases": bases}
        model = made(data, reversible=None if bases == 2 else False, chart=False, **sizes)
        errors[bases] = start_as_splitting(model, data).residual
    assert errors[2] < 1e-10 < 0.1 < errors[1]


@pytest.mark.parametrize(
    "name, blocks",
    [
        ("rigid-body", [[0], [1], [2]]),
        ("heavy-top", [[0, 3], [1, 4], [2, 5]]),
        ("charged-particle", [[0, 1], [2], [3]]),
        ("henon-heiles", [[0, 1], [2, 3]]),
        ("advection", [[*range(0, 32, 2)], [*range(1, 32, 2)]]),
        ("hill-vortex", None),
    ],
)
def test_blocks_that_do_not_move_one_another(name, blocks):
    system = vp.load_system(name)
    group = symmetry_group(system.reversing_symmetries, system.dim)
    states = np.random.default_rng(0).uniform(0.5, 1.5, (20, system.dim))
    assert separable_blocks(system, states, group, system.dim) == blocks
