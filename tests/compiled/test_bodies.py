"""Models of many bodies as loops over clusters: equal to PyTorch, whatever the clusters are."""

import functools

import numpy as np
import pytest
import torch

from vpintegrator import compiled, models, nn
from vpintegrator.compiled import bodies
from vpintegrator.compiled import model as compiled_model
from vpintegrator.compiled.bodies.shears import shears_of
from vpintegrator.runtime.threads import torch_threads
from vpintegrator.training import Objective
from vpintegrator.training.residuals import ParameterVector

COUNT = 11  # not a multiple of any number of lanes


def reversing(size):
    """(q, p) -> (q, -p)."""
    return torch.diag(torch.cat([torch.ones(size), -torch.ones(size)]).double())


def turned_round(bodies):
    """(q, p) -> (-q, p) with the order of the bodies turned round."""
    flip = torch.eye(bodies, dtype=torch.float64).flip(0)
    return torch.block_diag(-flip, flip)


POLYNOMIALS = {"functions": "polynomial", "degree": 3}
CASES = {
    "ring": {"bodies": 5, "topology": "ring", "translations": True, "reach": 2, **POLYNOMIALS},
    "chain": {"bodies": 9, "topology": "chain", "width": 3},
    "walls": {"bodies": 4, "topology": "walls", **POLYNOMIALS},
    "pairs of two kinds": {
        "bodies": 3,
        "topology": "pairs",
        "species": [0, 1, 1],
        "vector": 2,
        "translations": True,
        "rotations": True,
        **POLYNOMIALS,
    },
    "pairs in space": {
        "bodies": 3,
        "topology": "pairs",
        "vector": 3,
        "rotations": True,
        "lengths": "squares",
        **POLYNOMIALS,
    },
    "ring turned round": {"bodies": 4, "topology": "ring", "mirror": True, **POLYNOMIALS},
    "one step": {"bodies": 3, "topology": "ring", "reversible": False, **POLYNOMIALS},
}


@pytest.fixture(autouse=True)
def loops_for_few_clusters(monkeypatch):
    monkeypatch.setattr(bodies.source, "_FEW", 0)


def build(name, bodies=None, dtype=torch.float64):
    case = {"vector": 1, "reversible": True, "mirror": False, **CASES[name]}
    case["bodies"] = bodies or case["bodies"]
    size = case["bodies"] * case.pop("vector")
    rhos = [turned_round(size) if case.pop("mirror") else reversing(size)]
    rhos = rhos if case.pop("reversible") else []
    torch.manual_seed(0)
    model = models.SymplecticFeedForward(
        dim=2 * size, depth=2, reversing_symmetries=rhos, dtype=dtype, **case
    )
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.03 * torch.randn_like(p))
        for layer in model.modules():
            if isinstance(layer, nn.ClusterFeatures):
                layer.unit.fill_(1.7)
    model.set_normalisation(0.0, [1.25] * size + [0.6] * size)
    return model.eval()


@functools.cache
def made(name):
    model = build(name)
    weights = np.linspace(0.5, 1.5, model.dim)
    return model, compiled.CompiledResidual(model, weights, chained=True)


def states(model, count=COUNT, length=1):
    generator = np.random.default_rng(1)
    numbers = 0.4 * generator.normal(size=(count, length, model.dim))
    return torch.from_numpy(numbers).to(model.scale)


@pytest.mark.parametrize("trajectories", [1, COUNT])
@pytest.mark.parametrize("name", CASES)
def test_rollouts_are_those_of_pytorch(name, trajectories):
    model = build(name)
    machine = compiled.compile_model(model, trajectories)
    assert isinstance(machine.source, bodies.LoopsSource)
    first = states(model, trajectories)
    found, last = machine.advance(first.numpy(), 3)
    with torch.no_grad():
        for call in range(3):
            first = model(first)
            np.testing.assert_allclose(found[:, call], first[:, 0], rtol=1e-13, atol=1e-13)
    np.testing.assert_array_equal(last[:, 0], found[:, -1])


@pytest.mark.parametrize("horizon", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_derivatives_are_those_of_pytorch(name, horizon):
    model, machine = made(name)
    x, y = states(model), states(model, length=horizon)
    parameters = ParameterVector(model)
    objective, vector = Objective(horizon=horizon), parameters.read()

    def residual(v):
        difference = objective.difference(model, x, y, parameters.named(v))
        found = (difference * torch.from_numpy(machine.weights)).flatten(1).mT
        return found, found

    slopes, expected = torch.func.jacrev(residual, has_aux=True)(vector)
    slopes, expected = slopes.permute(2, 0, 1).detach().numpy(), expected.detach().numpy()
    arrays = vector.numpy(), x.numpy(), y.numpy()
    transposed, residuals = machine.jacobian(*arrays)
    size = np.abs(slopes).max()
    np.testing.assert_allclose(residuals, expected, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(transposed, slopes, rtol=1e-13, atol=1e-13 * size)
    half = np.tensordot(slopes, expected, 2)
    squares, gradient = machine.gradient(*arrays)
    np.testing.assert_allclose(gradient, half, rtol=1e-12, atol=1e-13 * np.abs(half).max())
    np.testing.assert_array_equal(machine.sums(*arrays), squares)
    np.testing.assert_allclose(squares[0], np.sum(expected**2), rtol=1e-13)


def test_rows_are_computed_by_blocks(monkeypatch):
    """However many rows of J^T are computed together, here and in the library."""
    model, machine = made("chain")
    arrays = ParameterVector(model).read().numpy(), states(model).numpy(), states(model).numpy()
    expected = machine.jacobian(*arrays)[0]
    height = 1 + len(expected)
    monkeypatch.setattr(compiled.residual, "_JACOBIAN_BYTES", 8 * height * 5 * machine._lanes)
    monkeypatch.setattr(compiled.residual, "_FEWEST_ROWS", 0)
    monkeypatch.setattr(bodies.tables, "_ROWS", 0)
    other = compiled.CompiledResidual(model, machine.weights)
    assert len(list(other.jacobians(*arrays))) > 4
    np.testing.assert_allclose(other.jacobian(*arrays)[0], expected, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("narrow", [False, True])
def test_trajectories_are_independent(narrow):
    model = build("chain")
    machine, first = compiled.CompiledModel(model, narrow), states(model).numpy()
    whole = machine.advance(first, 5)[0]
    np.testing.assert_array_equal(machine.advance(first[4:5], 5)[0], whole[4:5])
    first[2, 0, 3] = np.nan
    others = np.arange(COUNT) != 2
    np.testing.assert_array_equal(machine.advance(first, 5)[0][others], whole[others])


def test_parameters_that_are_not_trained():
    model = build("chain")
    for name, p in model.named_parameters():
        p.requires_grad_("bias" in name)
    arrays = states(model).numpy(), states(model).numpy()
    machine = compiled.CompiledResidual(model, np.ones(model.dim))  # compared with PyTorch
    transposed, _ = machine.jacobian(ParameterVector(model).read().numpy(), *arrays)
    assert len(transposed) == sum(p.numel() for p in model.parameters() if p.requires_grad)


@pytest.mark.parametrize("narrow", [False, True])
def test_threads_change_nothing(monkeypatch, narrow):
    model = build("walls")
    machine, first = compiled.CompiledModel(model, narrow), states(model, 37).numpy()
    with torch_threads(1):
        alone = machine.advance(first, 7)
    monkeypatch.setattr(compiled_model, "_THREAD", 1)
    with torch_threads(3):
        shared = machine.advance(first, 7)
    for expected, found in zip(alone, shared, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_single_precision():
    model = build("ring", dtype=torch.float32)
    first = states(model)
    found, _ = compiled.compile_model(model).advance(first.numpy(), 1)
    assert found.dtype == np.float32
    with torch.no_grad():
        np.testing.assert_allclose(found, model(first), rtol=1e-4, atol=1e-5)


@pytest.mark.thorough
def test_a_thousand_bodies_need_no_other_library():
    few, many = (build("one step", n) for n in (8, 1000))
    sources = [compiled.CompiledModel(model).source for model in (few, many)]
    assert sources[0].units == sources[1].units
    assert sources[1].operations == 125 * sources[0].operations
    machine = compiled.CompiledResidual(many, np.ones(2000))  # compared with PyTorch
    assert machine.source.units == compiled.CompiledResidual(few, np.ones(16)).source.units


def test_units_share_functions():
    assert compiled.CompiledModel(build("ring")).source.units[0].count("struct Kind") == 3


def test_few_clusters_are_straight_code(monkeypatch):
    monkeypatch.undo()
    model = build("pairs of two kinds")
    assert bodies.loops_of(model, derivatives=True) is None
    assert bodies.loops_of(build("chain", 12), derivatives=True) is not None
    monkeypatch.setattr(bodies.source, "_SHORT", 100)  # there it would take long to compile
    assert bodies.loops_of(model, derivatives=True) is not None


def test_what_is_no_sum_over_clusters_is_followed_as_a_whole():
    assert shears_of(models.SymplecticFeedForward(dim=4)) is None
    model = build("ring")
    model.core.psi.append(nn.HenonMap(nn.NeuronPotential(5)))
    assert shears_of(model) is None


def test_potentials_with_weights_in_common_are_followed_as_a_whole():
    model = build("ring")
    (first,), (second,) = (layer.kinetic.potentials for layer in model.core.psi)
    first.function.coefficients = second.function.coefficients
    assert shears_of(model) is None


def test_other_potentials_are_one_cluster():
    model = build("chain")
    layer = nn.GradientCoupling(nn.QuadraticPotential(9), nn.NeuronPotential(9, 4))
    model.core.psi.append(layer)
    shears = shears_of(model)
    assert shears is not None and shears[-1].read.shape == (1, 9)
    first = states(model)
    found, _ = compiled.compile_model(model).advance(first.numpy(), 1)
    with torch.no_grad():
        np.testing.assert_allclose(found, model(first), rtol=1e-13, atol=1e-13)


def test_tables_that_are_equal_are_there_once():
    source = compiled.CompiledModel(build("ring")).source
    tables = source.tables(8, narrow=True)
    assert len(tables._arrays) < 10 * len(source._shears) / 2
