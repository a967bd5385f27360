"""Generating functions by least squares: the solve, its errors, ridge, bad data."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

import vpintegrator as vp
from tests.nn.laws import assert_close, symplecticity_defect
from tests.training.conftest import images
from vpintegrator.data.pairs import Pairs
from vpintegrator.errors import InputError
from vpintegrator.models import SymplecticGeneratingFunctionMap
from vpintegrator.training import GeneratingFunctions
from vpintegrator.training.linear import enough_pairs, fit_pairs, implicit_map, layer_pairs
from vpintegrator.training.training_data import TrainingData

RNG = np.random.default_rng
ANGLE = 3.0  # of a map near half a turn


def kicked(z, angle=0.3):
    """A kick by a cubic force, and a rotation by an angle."""
    q, p = z[..., 0], z[..., 1] - 0.1 * z[..., 0] ** 3
    c, s = math.cos(angle), math.sin(angle)
    return np.stack([c * q + s * p, c * p - s * q], -1)


def orbits(count=30, times=8, angle=0.3):
    """States (trajectory, time, 2) of such a map."""
    states = [RNG(0).uniform(-1, 1, (count, 2))]
    for _ in range(times - 1):
        states.append(kicked(states[-1], angle))
    return np.stack(states, 1)


def fitted(system, name, path, far=False, **arguments):
    """A fit to pairs of a dataset of the catalogue: the model, the fit, and the pairs."""
    data = TrainingData(vp.generate(system, path / "a.h5", count=100, steps=20), equations=True)
    model = vp.models.build(data.dataset.system, name, arguments)
    data.normalise(model)
    pairs = layer_pairs(model, data, enough_pairs(model))
    before, after = (states[:, -1] for states in pairs[: len(pairs)])
    return model, fit_pairs(model, pairs, far), before, after


def pairs_of(before, after):
    return Pairs.of_tensors(*(torch.as_tensor(states)[:, None] for states in (before, after)))


def test_pairs_that_alone_determine_a_direction_cost_that_direction(tmp_path):
    """Terms of high degree are nearly dependent: at full rank some pairs have a leverage of one."""
    system = Path(__file__).parents[2] / "scripts/benchmarks/systems/product-oscillator.toml"
    _, fit, _, _ = fitted(system, "sgf", tmp_path, degree=40)
    assert fit.rank < fit.coefficients == 120
    assert fit.penalty == 0
    assert fit.error < 1e-9  # 5e-6 with a ridge penalty


@pytest.mark.parametrize(("system", "name"), [("henon-heiles", "sgf"), ("rigid-body", "vpgf")])
def test_fits_are_those_of_numpy(system, name, tmp_path):
    """Some functions of the second have no part in the map of half a step."""
    model, fit, before, after = fitted(system, name, tmp_path, degree=4)
    z, image = model.coordinates(before), model.coordinates(after)
    matrix, right = implicit_map(model).equations(z, image)
    weight = 1 / image.std(0)
    A = (matrix * weight[:, None]).detach().flatten(0, 1).numpy()
    b = (right * weight).flatten().numpy()
    expected, _, rank, _ = np.linalg.lstsq(A, b, rcond=1e-13)
    found = torch.cat([c.detach() for c in implicit_map(model).coefficients()]).numpy()
    assert (fit.coefficients, fit.rank, fit.pairs) == (A.shape[1], rank, len(before))
    np.testing.assert_allclose(A @ found, A @ expected, atol=1e-13)
    if rank == fit.coefficients:
        np.testing.assert_allclose(found, expected, atol=1e-13)


def test_maps_near_half_a_turn():
    before, after = (torch.from_numpy(x) for x in np.moveaxis(orbits(200, 2, ANGLE), 1, 0))
    errors = {}
    for far in (False, True):
        model = SymplecticGeneratingFunctionMap(dim=2, degree=8)
        model.adapt(torch.cat([before, after]))
        errors[far] = fit_pairs(model, pairs_of(before, after), far).error
    assert errors[True] < 1e-6 < 1e-2 < errors[False]
    assert symplecticity_defect(model, before[:1]) < 1e-13
    found = vp.fit(orbits(100, 8, ANGLE), [GeneratingFunctions()], step=1.0)
    assert found.error < 1e-6
    assert implicit_map(found.model).has_linear


def test_a_linear_map_in_front_leaves_angles_as_they_are(tmp_path):
    """A turn more of an angle is a turn more of its image."""
    model, fit, before, _ = fitted("standard-map", "sgf", tmp_path, far=True, degree=6)
    assert implicit_map(model).has_linear
    assert fit.error < 1e-2
    turn = torch.tensor([2 * math.pi, 0], dtype=torch.float64)
    z = before[:20, None]
    assert_close(model(z + turn) - model(z), turn.expand_as(z), 1e-12)


def test_reversing_symmetries_act_in_the_coordinates_of_a_chart(tmp_path):
    """That of the chart turns the momentum; in (x, y, z) the same matrix would turn y."""
    model, fit, before, after = fitted("hill-vortex", "vpgf", tmp_path, degree=8)
    assert model.chart is not None and len(model.reversing_symmetries) == 1
    assert fit.error < 1e-6
    x, y = model.coordinates(before), model.coordinates(after)  # the last component is constant
    assert_close(implicit_map(model)(x[:, None, :2], x[:, 2:])[:, 0], y[:, :2], 1e-5)


REVERSIBLE = """
state = ["x", "y", "z"]
measured = true
reversing_symmetry = [{ x = "-x" }]
"""


def test_measured_states_of_a_reversible_map(tmp_path):
    """States half-way are not known, so that a fit leaves the symmetry out."""
    states = vp.generate("rigid-body", tmp_path / "body.h5", count=100, steps=4).states("train")
    (tmp_path / "a.toml").write_text(REVERSIBLE)
    data = vp.import_dataset(states, tmp_path / "a.h5", step=0.2, system=tmp_path / "a.toml")
    result = vp.fit(data, [GeneratingFunctions({"degree": 8}, form="volume")], progress=False)
    assert result.error < 1e-6 and not len(result.model.reversing_symmetries)
    with pytest.raises(InputError, match="2 maps in a row, and the states between are not known"):
        vp.train(vp.models.build(data.system, "vpgf", {"degree": 4}), data)


def test_a_degree_too_high_costs_little_where_few_pairs_have_noise():
    """The ridge penalty may grow geometrically with the degree; ten times the error without."""
    z = torch.from_numpy(RNG(1).uniform(-1, 1, (60, 2)))
    exact = torch.from_numpy(kicked(z.numpy()))
    noisy = exact + 1e-3 * torch.from_numpy(RNG(2).normal(size=exact.shape))
    fresh = RNG(3).uniform(-1, 1, (500, 2))
    errors = []
    for degree in (4, 10):
        model = SymplecticGeneratingFunctionMap(dim=2, degree=degree)
        model.set_normalisation(z.mean(0), z.std(0))
        model.adapt(torch.cat([z, exact]))
        fit_pairs(model, pairs_of(z, noisy))
        errors.append(np.sqrt(np.mean((images(model, fresh) - kicked(fresh)) ** 2)))
    assert errors[1] < 2 * errors[0]


@pytest.mark.parametrize(
    ("states", "options", "sentence"),
    [
        (np.full((12, 4, 2), 0.5), {}, "all begin at the same state; give different ones"),
        (
            np.repeat(orbits(1, 4), 12, axis=0),
            {},
            "3 different pairs of states give 6 equations for 44 coefficients",
        ),
        (orbits(4, 3), {"split": "trajectory"}, "different pairs of states give"),
    ],
    ids=["a single state", "coincident pairs", "too few pairs"],
)
def test_data_that_determine_no_map(states, options, sentence, tmp_path):
    data = vp.import_dataset(states, tmp_path / "a.h5", step=1.0, **options)
    with pytest.raises(InputError, match=sentence):
        vp.train(SymplecticGeneratingFunctionMap(dim=2, degree=8), data)
    with pytest.raises(InputError, match=sentence):
        vp.fit(data, [GeneratingFunctions({"degree": 8})], progress=False)


def test_exact_terms_beside_polynomials_that_give_them(tmp_path):
    """The Hamiltonian of a Duffing oscillator is a polynomial: its coefficient is the step."""
    model, *_ = fitted("duffing", "sgf", tmp_path, functions="hamiltonian", degree=8)
    exact, size = model.core.exact, float(model.scale[0] * model.scale[1])
    (coefficient,) = (exact.coefficients / exact.term_scale).detach()[:1] * size
    step = vp.load_system("duffing").defaults["step"]
    assert coefficient.item() == pytest.approx(step, rel=0.05)
    assert model.core.iterations <= 5


WALL = """
state = ["q", "p"]
hamiltonian = "p**2/2 + q**2/2 + 0.005/q**2"
[initial_conditions]
distribution = "uniform"
low = [0.3, -0.5]
high = [1.2, 0.5]
[defaults]
step = 0.1
"""


def test_maps_in_a_row_weigh_pairs_by_their_expected_error(tmp_path):
    """The few states near the wall, where H varies rapidly, do not spoil the others."""
    model, *_ = fitted(WALL, "sgf", tmp_path, functions="hamiltonian", degree=2, repeats=4)
    states = vp.open_dataset(tmp_path / "a.h5").states("train")[:, :2]
    errors = np.linalg.norm(images(model, states[:, 0]) - states[:, 1], axis=1)

    assert np.median(errors) < 1e-9


def test_degrees_go_on_where_terms_are_too_few_for_weights(tmp_path):
    """The rigid body has three components: 44 terms at the degree from which weights are tried."""
    data = vp.generate("rigid-body", tmp_path / "body.h5", count=40, steps=10)
    fit = vp.fit(data, [vp.training.search("vpgf")], seconds=600, target=1e-8, progress=False)
    assert fit.error < 1e-8 and fit.model.arguments["degree"] >= 8
