"""Generating functions with exact terms of a Hamiltonian: accuracy, families, time."""

import numpy as np
import pytest
import torch

import vpintegrator as vp
from tests.nn.laws import assert_close, sample
from vpintegrator.data.pairs import Pairs
from vpintegrator.errors import InputError
from vpintegrator.training.linear import fit_pairs, layer_pairs
from vpintegrator.training.training_data import TrainingData


@pytest.fixture(scope="module")
def pendulum(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exact")
    return vp.generate("pendulum", folder / "pendulum.h5", count=40, steps=20)


def solved(dataset, **arguments):
    system = dataset.family.extended if dataset.is_family else dataset.system
    model = vp.models.build(system, "sgf", {"functions": "hamiltonian", **arguments})
    data = TrainingData(dataset, equations=True)
    data.normalise(model)
    pairs = layer_pairs(model, data, 300)
    fit_pairs(model, pairs)
    return model, data


@pytest.mark.parametrize(
    ("order", "repeats", "rate"), [(2, (1, 2), 2), (4, (1, 2), 4), (6, (1, 2, 4), 6)]
)
def test_errors_fall_as_powers_of_the_maps_in_a_row(pendulum, order, repeats, rate):
    errors = []
    for count in repeats:
        model, data = solved(pendulum, degree=1, order=order, repeats=count)
        errors.append(data.test_error(model)[0])
    rates = np.log2(np.array(errors[:-1]) / errors[1:])
    assert np.all(np.abs(rates - rate) < (0.5 if order < 6 else 1))
    assert order < 6 or errors[0] < 1e-7


def test_coefficients_of_small_steps_are_those_of_the_series():
    """S = h H + h^3/24 H''(f, f) + ... for Poincare's form of the exact flow."""
    step = 0.05
    system = vp.load_system("pendulum")
    initial = np.random.default_rng(0).uniform(-1, 1, (100, 2))
    after = vp.solve(system, initial, [0.0, step], rtol=1e-13, atol=1e-13)[:, 1]
    model = vp.models.build(system, "sgf", {"functions": "hamiltonian", "degree": 1, "order": 4})
    model.set_normalisation(torch.zeros(2), torch.ones(2))
    model.adapt(torch.from_numpy(initial))
    fit_pairs(model, Pairs.of_tensors(*(torch.from_numpy(x)[:, None] for x in (initial, after))))
    exact = model.core.exact
    # normalised states may have another size of the form
    size = float(model.scale[0] * model.scale[1])
    found = (exact.coefficients / exact.term_scale).detach() * size
    assert found[0].item() / step == pytest.approx(1, rel=1e-6)
    assert found[1].item() / step**3 * 24 == pytest.approx(1, rel=1e-2)


def test_a_family_and_its_members(tmp_path):
    vary = {"step": (0.05, 0.2)}
    dataset = vp.generate("pendulum", tmp_path / "family.h5", count=60, steps=10, vary=vary)
    model, training = solved(dataset, degree=2)
    assert training.test_error(model)[0] < 1e-7
    training.describe(model)
    plain = model.at(step=0.1)
    z = sample(5, 1, 2)
    assert_close(plain(z), model(z, torch.tensor([0.1], dtype=torch.float64)), 1e-12)
    assert_close(model(z, torch.zeros(1).double()), z, 1e-15)


def test_explicit_time(tmp_path):
    dataset = vp.generate("forced-pendulum", tmp_path / "forced.h5", count=60, steps=20)
    model, data = solved(dataset, degree=2)
    assert model.core.exact.explicit_time
    later = torch.tensor([[[0.3, 0.1, 500.0]]]).double()  # polynomials do not depend on time
    assert float((model(later) - later)[..., :2].abs().max()) < 1
    assert data.test_error(model)[0] < 1e-5
    with pytest.raises(InputError, match="repeats must be 1"):
        solved(dataset, degree=2, repeats=2)
