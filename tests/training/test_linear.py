"""Generating functions by least squares: the solve, its errors, ridge, bad data."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

import vpintegrator as vp
from tests.nn.laws import assert_close, symplecticity_defect
from vpintegrator.data.pairs import Pairs
from vpintegrator.errors import InputError
from vpintegrator.models import (
    SymplecticGeneratingFunctionMap,
)
from vpintegrator.training import GeneratingFunctions
from vpintegrator.training.kinds.kind import count
from vpintegrator.training.linear import (
    LinearEquations,
    enough_pairs,
    fit_pairs,
    implicit_map,
    layer_pairs,
)
from vpintegrator.training.results import History
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


def dataset(states, path, **options):
    return vp.import_dataset(states, path, step=1.0, **options)


def fitted(system, name, degree, path, far=False, count=None, **options):
    """A fit to pairs of a dataset of the catalogue: the model, the fit, and the pairs."""
    data = TrainingData(vp.generate(system, path, count=100, steps=20, **options))
    model = vp.models.build(data.dataset.system, name, {"degree": degree})
    data.normalise(model)
    pairs = layer_pairs(model, data, count or enough_pairs(model))
    before, after = (states[:, -1] for states in pairs[: len(pairs)])
    return model, fit_pairs(model, pairs, far), before, after


def pairs_of(before, after):
    return Pairs.of_tensors(before[:, None], after[:, None])


def matrices(model, before, after):
    """Weighted equations of pairs of states."""
    layer = implicit_map(model)
    z, image = model.coordinates(before), model.coordinates(after)
    matrix, right = layer.equations(z, image)
    weight = 1 / image.std(0)
    matrix = (matrix * weight[:, None]).detach().numpy()
    return matrix, (right * weight).numpy()


# generating functions


def test_pairs_that_alone_determine_a_direction_cost_that_direction(tmp_path):
    """Terms of high degree are nearly dependent: at full rank some pairs have a leverage of one."""
    system = Path(__file__).parents[2] / "scripts/benchmarks/systems/product-oscillator.toml"
    _, fit, _, _ = fitted(system, "sgf", 40, tmp_path / "a.h5")
    assert fit.rank < fit.coefficients == 120
    assert fit.penalty == 0
    assert fit.error < 1e-9  # 5e-6 with a ridge penalty


@pytest.mark.parametrize(("system", "name"), [("henon-heiles", "sgf"), ("rigid-body", "vpgf")])
def test_fits_are_those_of_numpy(system, name, tmp_path):
    """Some functions of the second have no part in the map of half a step."""
    model, fit, before, after = fitted(system, name, 4, tmp_path / "a.h5")
    matrix, right = matrices(model, before, after)
    A, b = matrix.reshape(-1, matrix.shape[-1]), right.reshape(-1)
    expected, _, rank, _ = np.linalg.lstsq(A, b, rcond=1e-13)
    found = torch.cat([c.detach() for c in implicit_map(model).coefficients()]).numpy()
    assert (fit.coefficients, fit.rank, fit.pairs) == (A.shape[1], rank, len(before))
    np.testing.assert_allclose(A @ found, A @ expected, atol=1e-13)
    if rank == fit.coefficients:
        np.testing.assert_allclose(found, expected, atol=1e-13)


@pytest.mark.parametrize("pairs", [11, 16, 22])  # with two equations each
def test_no_more_equations_than_coefficients(pairs):
    """Without a penalty such a fit is exact, and tells nothing about other pairs."""
    states = orbits(count=pairs, times=2)
    model = SymplecticGeneratingFunctionMap(dim=2, degree=8)
    before, after = torch.from_numpy(states).unbind(1)
    fit = fit_pairs(model, pairs_of(before, after))
    assert fit.penalty > 0
    assert type(fit.penalty) is float
    assert math.isfinite(fit.error)
    apart = RNG(1).uniform(-0.5, 0.5, (50, 2))
    error = model(torch.from_numpy(apart)[:, None])[:, 0].detach().numpy() - kicked(apart)
    assert np.sqrt((error**2).mean()) < 10 * fit.error


def test_maps_near_half_a_turn(tmp_path):
    before, after = (torch.from_numpy(x) for x in np.moveaxis(orbits(200, 2, ANGLE), 1, 0))
    errors = {}
    for far in (False, True):
        model = SymplecticGeneratingFunctionMap(dim=2, degree=8)
        model.adapt(torch.cat([before, after]))
        errors[far] = fit_pairs(model, pairs_of(before, after), far).error
    assert errors[True] < 1e-6 < 1e-2 < errors[False]
    assert symplecticity_defect(model, before[:1]) < 1e-13
    data = dataset(orbits(100, 8, ANGLE), tmp_path / "turn.h5")
    found = vp.fit(data, [GeneratingFunctions()], progress=False)
    assert found.error < 1e-6
    assert implicit_map(found.model).has_linear


def test_a_linear_map_in_front_leaves_angles_as_they_are(tmp_path):
    """A turn more of an angle is a turn more of its image."""
    model, fit, before, _ = fitted("standard-map", "sgf", 6, tmp_path / "a.h5", far=True)
    assert implicit_map(model).has_linear
    assert fit.error < 1e-2
    turn = torch.tensor([2 * math.pi, 0], dtype=torch.float64)
    z = before[:20, None]
    assert_close(model(z + turn) - model(z), turn.expand_as(z), 1e-12)


def test_reversing_symmetries_act_in_the_coordinates_of_a_chart(tmp_path):
    """That of the chart turns the momentum; in (x, y, z) the same matrix would turn y."""
    model, fit, before, after = fitted("hill-vortex", "vpgf", 8, tmp_path / "a.h5")
    assert model.chart is not None and len(model.reversing_symmetries) == 1
    assert fit.error < 1e-6
    x, y = model.coordinates(before), model.coordinates(after)  # the last component is constant
    assert_close(implicit_map(model)(x[:, None, :2], x[:, 2:])[:, 0], y[:, :2], 1e-5)


def test_reversible_maps_that_preserve_volume(tmp_path):
    model, fit, before, _ = fitted("rigid-body", "vpgf", 6, tmp_path / "a.h5")
    (rho,) = model.reversing_symmetries[:1]
    assert fit.error < 1e-5
    z = before[:20, None]
    assert_close(model(model(z) @ rho.mT) @ rho.mT, z, 1e-13)
    data = TrainingData(vp.open_dataset(tmp_path / "a.h5"))
    held_out = data.held_out(model)
    assert vp.training.relative_error(model, *held_out, scale=data.error_scale) < 1e-5


REVERSIBLE = """
state = ["x", "y", "z"]
measured = true
reversing_symmetry = [{ x = "-x" }]
"""


def half_step(z, sign=1):
    """Shears, or their inverse."""
    x, y, w = np.moveaxis(z, -1, 0)
    if sign > 0:
        x = x + 0.2 * y + 0.05 * w**2
        y = y - 0.1 * np.sin(x)
        w = w + 0.1 * x * y
    else:
        w = w - 0.1 * x * y
        y = y + 0.1 * np.sin(x)
        x = x - 0.2 * y - 0.05 * w**2
    return np.stack([x, y, w], -1)


def test_measured_states_of_a_reversible_map(tmp_path):
    """States half-way are not known, so that a fit leaves the symmetry out."""
    R, states = np.array([-1, 1, 1]), [RNG(0).uniform(-0.8, 0.8, (300, 3))]
    for _ in range(3):
        states.append(half_step(R * half_step(R * states[-1], -1)))
    (tmp_path / "a.toml").write_text(REVERSIBLE)
    data = dataset(np.stack(states, 1), tmp_path / "a.h5", system=tmp_path / "a.toml")
    result = vp.fit(data, [GeneratingFunctions({"degree": 10}, form="volume")], progress=False)
    assert result.error < 1e-6  # of higher degrees it depends on the rounding of the processor
    assert not len(result.model.reversing_symmetries)
    with pytest.raises(InputError, match="2 maps in a row, and the states between are not known"):
        vp.train(vp.models.build(data.system, "vpgf", {"degree": 4}), data)


@dataclass(frozen=True)
class Pretended(GeneratingFunctions):
    """Solves that end with errors that are known."""

    errors: Iterator | None = None

    def train(self, trial, data, budget):
        data.normalise(trial.model)
        error = next(self.errors)
        history = History("linear", 0, count(trial.model), stopped_by="solved")
        history.add(0.0, error, error)
        return self.fit_of(trial, history, error, 0.01 * error)


@pytest.mark.filterwarnings("ignore:sgf is not to be relied on")  # nothing is fitted
def test_the_smallest_degree_within_the_standard_error_is_chosen(tmp_path):
    """Errors that go on falling by less than that promise nothing, and degrees end."""
    errors = iter([1e-2, 1e-4, *(1e-6 * (1 - 0.005 * n) for n in range(20))])
    data = dataset(orbits(200), tmp_path / "a.h5")
    result = vp.fit(data, [Pretended(compared=99, errors=errors)], progress=False)
    assert result.model.arguments["degree"] == 6
    assert len(result.tried) == 3 + 5


# bad data


def bad(name):
    """States, options, and the sentence that refuses them."""
    states = orbits(12, 4)
    if name == "a single state":
        return np.full((12, 4, 2), 0.5), {}, "all begin at the same state; give different ones"
    if name == "coincident pairs":
        same = np.repeat(states[:1], 12, axis=0)
        return same, {}, "3 different pairs of states give 6 equations for 44 coefficients"
    return orbits(4, 3), {"split": "trajectory"}, "different pairs of states give"


def test_a_degree_too_high_costs_little_where_few_pairs_have_noise():
    """The ridge penalty may grow geometrically with the degree; ten times the error without."""
    z = torch.from_numpy(RNG(1).uniform(-1, 1, (60, 2)))
    images = torch.from_numpy(kicked(z.numpy()))
    noisy = images + 1e-3 * torch.from_numpy(RNG(2).normal(size=images.shape))
    fresh = RNG(3).uniform(-1, 1, (500, 2))
    errors = []
    for degree in (4, 10):
        model = SymplecticGeneratingFunctionMap(dim=2, degree=degree)
        model.set_normalisation(z.mean(0), z.std(0))
        model.adapt(torch.cat([z, images]))
        fit_pairs(model, pairs_of(z, noisy))
        found = model(torch.from_numpy(fresh)[:, None])[:, 0].detach().numpy()
        errors.append(np.sqrt(np.mean((found - kicked(fresh)) ** 2)))
    assert errors[1] < 2 * errors[0]


@pytest.mark.parametrize("name", ["a single state", "coincident pairs", "too few pairs"])
def test_data_that_determine_no_map(name, tmp_path):
    states, options, sentence = bad(name)
    path = tmp_path / "a.h5"
    data = dataset(states, path, **options)
    with pytest.raises(InputError, match=sentence) as refused:
        vp.train(SymplecticGeneratingFunctionMap(dim=2, degree=8), data)
    assert str(refused.value).count("\n") == 0

    with pytest.raises(InputError, match=sentence):
        vp.fit(data, [GeneratingFunctions({"degree": 8})], progress=False)


def test_exact_terms_beside_polynomials_that_give_them(tmp_path):
    """The Hamiltonian of a Duffing oscillator is a polynomial: its coefficient is the step."""
    dataset = vp.generate("duffing", tmp_path / "duffing.h5", count=60, steps=20)
    model = vp.models.build(dataset.system, "sgf", {"functions": "hamiltonian", "degree": 8})
    data = TrainingData(dataset)
    data.normalise(model)
    pairs = layer_pairs(model, data, 1000)
    fit_pairs(model, pairs)
    exact = model.core.exact
    size = float(model.scale[0] * model.scale[1])
    found = (exact.coefficients / exact.term_scale).detach() * size
    assert found[0].item() == pytest.approx(dataset.step, rel=0.05)
    assert model.core.iterations <= 5


WALL = """
state = ["q", "p"]
hamiltonian = "p**2/2 + q**2/2 + 0.005/q**2"

[initial_conditions]
distribution = "uniform"
low = [0.3, -0.5]
high = [1.2, 0.5]
"""


def test_maps_in_a_row_weigh_pairs_by_their_expected_error(tmp_path, monkeypatch):
    """The few states near the wall, where H varies rapidly, do not spoil the others."""
    data = TrainingData(vp.generate(WALL, tmp_path / "wall.h5", count=50, steps=20, step=0.1))

    def median_error():
        model = vp.models.build(
            data.dataset.system, "sgf", {"functions": "hamiltonian", "degree": 2, "repeats": 4}
        )
        data.normalise(model)
        pairs = layer_pairs(model, data, 500)
        fit_pairs(model, pairs)
        inputs, targets = (states[:, -1] for states in data.pairs(model)[:200])
        with torch.no_grad():
            return float((model(inputs[:, None])[:, -1] - targets).norm(dim=-1).median())

    weighed = median_error()
    monkeypatch.setattr(
        LinearEquations,
        "_expected_errors",
        lambda self, matrix, unit=1: np.ones((len(matrix), 1)),
    )
    assert weighed < 0.02 * median_error()
