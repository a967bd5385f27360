"""Parts found in states: graphs that are no chain, unequal masses, distances, systems without."""

import numpy as np
import pytest
import torch

import vpintegrator as vp
from tests.nn.laws import randomise, symplecticity_defect
from vpintegrator.data.pairs import Pair
from vpintegrator.dynamics.compositions import FACTORS
from vpintegrator.training import AdditiveHamiltonians, LinearMaps, search
from vpintegrator.training.additive import equal_parts, error_of, fit_additive

STEP = 0.1
KINDS = [LinearMaps(), AdditiveHamiltonians()]
TREE = [(0, 1), (0, 2), (1, 3), (1, 4)]
STAR = [(0, 1), (0, 2), (0, 3), (0, 4)]


def orbits(force, mass, q, p, steps=8, substeps=10):
    """Orbits (orbit, time, dim) by a splitting of order six in small steps."""
    states = [np.concatenate([q, p], 1)]
    factors = FACTORS["blanes-moan-6"]
    for _ in range(steps):
        for _ in range(substeps):
            for n, factor in enumerate(factors):
                h = factor * STEP / substeps
                if n % 2 == 0:
                    q = q + h * p / mass
                    p = p + h * force(q)
                else:
                    p = p + h * force(q)
                    q = q + h * p / mass
        states.append(np.concatenate([q, p], 1))
    return np.stack(states, 1)


def network(edges, count, seed, slope, *, mass=None, stiffness=None, orbits_of=150):
    """Orbits of springs along edges; slope is the force of each of length d."""
    rng = np.random.default_rng(seed)
    D = np.zeros((len(edges), count))
    for row, (i, j) in zip(D, edges, strict=True):
        row[[i, j]] = -1, 1
    mass = np.ones(count) if mass is None else mass
    k = np.ones(len(edges)) if stiffness is None else stiffness
    q, p = rng.uniform(-1, 1, (2, orbits_of, count))
    return orbits(lambda q: -(k * slope(q @ D.T)) @ D, mass, q, p)


def edges_of(model):
    """Pairs of components that parts of one form connect; single components alone."""
    parts = model.arguments["parts"]
    return sorted(tuple(sorted(int(i) for i, _ in part[0])) for part in parts)


def cubic(d):
    return d + d**3


def test_the_graph_of_equal_springs_is_found_and_they_get_one_function():
    states = network(STAR, 5, 1, cubic)
    result = vp.fit(states, KINDS, step=STEP)
    assert edges_of(result.model) == STAR
    assert {*result.model.arguments["equal"]} == {0}
    assert result.error < 1e-8
    ends = next(iter(result.model.advance(states[:5, :1], 8)))[:, -1]
    assert np.abs(ends.reshape(5, -1) - states[:5, -1]).max() < 1e-6
    assert symplecticity_defect(result.model, torch.from_numpy(states[0, :1])) < 1e-12


def test_masses_and_springs_that_differ_have_functions_of_their_own():
    rng = np.random.default_rng(5)
    mass = rng.uniform(0.5, 3, 5)
    stiffness = rng.uniform(0.5, 2, len(TREE))
    states = network(TREE, 5, 2, cubic, mass=mass, stiffness=stiffness)
    result = vp.fit(states, KINDS, step=STEP)
    assert edges_of(result.model) == TREE
    assert len({*result.model.arguments.get("equal", range(4))}) == 4
    assert result.error < 1e-8


def test_a_wall_and_a_constant_force_are_parts_of_single_components():
    rng = np.random.default_rng(3)
    q, p = rng.uniform(-1, 1, (2, 150, 3))

    def force(q):
        d = np.diff(q, axis=1)
        own = np.zeros_like(q)
        own[:, 1:] -= cubic(d)
        own[:, :-1] += cubic(d)
        own[:, 2] += 0.5 - q[:, 2]
        return own

    result = vp.fit(orbits(force, np.ones(3), q, p), KINDS, step=STEP)
    assert edges_of(result.model) == [(0, 1), (1, 2), (2,)]
    assert result.error < 1e-8


def test_distances_of_bodies_are_found_where_coordinates_stand_axis_by_axis():
    order = [0, 2, 4, 1, 3, 5]
    rng = np.random.default_rng(4)
    base = np.array([1.0, 0.0, -0.5, 0.9, -0.5, -0.9])
    q = base + rng.uniform(-0.2, 0.2, (150, 6))
    p = rng.uniform(-0.3, 0.3, (150, 6))
    mass = np.repeat([1.0, 2.0, 1.5], 2)

    def force(q):
        x = q.reshape(-1, 3, 2)
        own = np.zeros_like(x)
        for i in range(3):
            for j in range(3):
                d = x[:, j] - x[:, i]
                r = np.linalg.norm(d, axis=1, keepdims=True) if i != j else 1.0
                own[:, i] += d / r**3
        return own.reshape(q.shape)

    states = orbits(force, mass, q, p)[:, :, [*order, *(6 + i for i in order)]]
    result = vp.fit(states, KINDS, step=STEP)
    parts = result.model.arguments["parts"]
    assert sorted(len(part) for part in parts) == [2, 2, 2]
    bodies = [[order.index(2 * body), order.index(2 * body + 1)] for body in range(3)]
    expected = [{*bodies[0], *bodies[1]}, {*bodies[0], *bodies[2]}, {*bodies[1], *bodies[2]}]
    found = [{int(i) for form in part for i, _ in form} for part in parts]
    assert all(pair in found for pair in expected)
    assert result.error < 1e-6


def test_nothing_is_chosen_where_a_hamiltonian_is_no_sum_of_such_functions():
    """The frequency of one oscillator depends on the amplitude of the other."""
    rng = np.random.default_rng(6)
    q, p = rng.uniform(-1, 1, (2, 150, 2))
    states = []
    for n in range(9):
        energy = (q**2 + p**2)[:, ::-1] / 2
        turn = n * STEP * (1 + 5 * energy)
        c = np.cos(turn)
        s = np.sin(turn)
        states.append(np.concatenate([c * q + s * p, c * p - s * q], 1))
    result = vp.fit(np.stack(states, 1), KINDS, step=STEP)
    assert result.error > 1e-4


def solved(rates, z, steps=8, substeps=40):
    """Orbits (orbit, time, dim) of an equation from states z, by the classical method."""
    states = [z]
    h = STEP / substeps
    for _ in range(steps):
        for _ in range(substeps):
            a = rates(z)
            b = rates(z + h / 2 * a)
            c = rates(z + h / 2 * b)
            z = z + h / 6 * (a + 2 * b + 2 * c + rates(z + h * c))
        states.append(z)
    return np.stack(states, 1)


def test_interactions_of_vortices_are_found():
    rng = np.random.default_rng(7)
    base = np.exp(2j * np.pi * np.arange(3) / 3)
    z = base + rng.uniform(-0.3, 0.3, (150, 3)) + 1j * rng.uniform(-0.3, 0.3, (150, 3))

    def rates(z):
        d = z[:, :, None] - z[:, None]
        apart = np.where(d == 0, np.inf, d)
        return 0.4j * (1 / apart).conj().sum(2)

    orbits_of_z = solved(rates, z)
    states = np.concatenate([orbits_of_z.real, orbits_of_z.imag], -1)
    result = vp.fit(states, KINDS, step=STEP, seconds=np.inf)
    parts = result.model.arguments["parts"]
    assert result.model.arguments["joint"]
    assert sorted(len(part) for part in parts) == [2, 2, 2]
    assert {*result.model.arguments["equal"]} == {0}
    assert result.error < 1e-7
    assert symplecticity_defect(result.model, torch.from_numpy(states[0, :1])) < 1e-12


@pytest.mark.parametrize(
    "field", [lambda y: 1 + (y**2).sum(1), lambda y: 1 + np.sin(y[:, 0]) * np.cos(y[:, 1])]
)
def test_a_field_that_turns_velocities_is_found(field):
    def rates(z):
        y, v = np.split(z, 2, 1)
        return np.concatenate([v, -y / 2 + field(y)[:, None] * v[:, ::-1] * [1, -1]], 1)

    states = solved(rates, np.random.default_rng(8).uniform(-1, 1, (150, 4)))
    result = vp.fit(states, KINDS, step=STEP, seconds=np.inf)
    assert result.model.arguments["turning"]
    assert result.error < 1e-6
    assert result.model.structure.keeps_volume and not result.model.structure.is_symplectic


@pytest.mark.parametrize("name", ["rigid-body", "driven-pendulum"])
def test_other_structures_are_refused(name, tmp_path):
    dataset = vp.generate(name, tmp_path / "orbits.h5", count=10, steps=10)
    with pytest.raises(vp.InputError):
        vp.fit(dataset, [search("additive")])


def test_the_iteration_recovers_the_coefficients_of_a_map():
    """A model of other coefficients is the oracle; pairs are its own images."""
    parts = [[[[0, 1.0]]], [[[0, -1.0], [1, 1.0]]], [[[1, 1.0]]]]
    models = [vp.models.AdditiveHamiltonianMap(dim=4, parts=parts, degree=5) for _ in range(2)]
    z = torch.from_numpy(np.random.default_rng(0).normal(size=(400, 1, 4)))
    for model in models:
        model.set_advance(0.2)
        model.adapt(2 * z[:, 0])
    randomise(models[0], 0.2, 6)
    with torch.no_grad():
        pair = Pair(z, models[0](z))
    assert fit_additive(models[1], pair) < 1e-12
    assert error_of(models[1], pair) < 1e-12


@pytest.mark.parametrize(("sign", "equal"), [(1.0, True), (-1.0, True), (0.5, False)])
def test_equal_functions_are_found_in_either_direction(sign, equal):
    """exp(q0) beside exp(sign q1): of signs one and minus one it is the same function."""
    model = vp.models.AdditiveHamiltonianMap(dim=4, parts=[[[[0, 1.0]]], [[[1, 1.0]]]], degree=12)
    z = torch.from_numpy(np.random.default_rng(1).uniform(-1, 1, (300, 1, 4)))
    model.set_advance(0.1)
    model.adapt(z[:, 0])
    force = torch.stack([z[..., 0].exp(), sign * (sign * z[..., 1]).exp()], -1)
    kick = torch.cat([torch.zeros_like(force), -0.1 * force], -1)
    fit_additive(model, Pair(z, z + kick))
    groups = equal_parts(model, Pair(z, z), "parts", 0.01)
    assert (groups.functions == 1) == equal
    if equal:
        assert groups.signs == [1.0, sign]
