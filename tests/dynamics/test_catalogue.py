"""The catalogue: claims that hold in generated data, and values that are published."""

from functools import cache

import numpy as np
import pytest

from vpintegrator.data import load_recipe
from vpintegrator.dynamics import InitialConditions, list_systems, load_system, solve
from vpintegrator.overview import recipe_summaries, system_summaries

COUNT = 4


@cache
def load(name):
    return load_system(name)


@cache
def data(name):
    """A few trajectories as the system suggests."""
    system = load(name)
    initial = system.sample_initial(COUNT, np.random.default_rng(1))
    times = system.defaults["step"] * np.arange(system.defaults["steps"] + 1)
    return times, solve(system, initial, times)


def orbit(system, initial, end, steps=1, rtol=1e-12):
    initial = np.atleast_2d(np.array(initial, dtype=float))
    return solve(system, initial, np.linspace(0, end, steps + 1), rtol=rtol, atol=rtol)


@pytest.mark.parametrize("name", list_systems())
def test_invariants_stay(name):
    system = load(name)
    states = data(name)[1]
    assert np.isfinite(states).all()
    for key, invariant in system.invariants.items():
        values = invariant(states)
        drift = np.abs(values - values[:, :1]).max() / np.abs(values).max()
        assert drift <= 1e-10, key


def test_the_list_tells_the_truth():
    found = system_summaries()
    assert {summary["name"] for summary in found} == set(list_systems())
    for summary in found:
        system = load(summary["name"])
        for key in ("dim", "kind", "subject", "title"):
            assert summary[key] == getattr(system, key) != "", key
        assert system.reference and system.description
        assert system.defaults.keys() >= {"step", "steps"}
    for summary in recipe_summaries():
        recipe = load_recipe(summary.pop("name"))
        assert {key: getattr(recipe, key) for key in summary} == summary


@pytest.mark.parametrize("name", ["toda", "fput", "advection", "lennard-jones-chain"])
@pytest.mark.parametrize("n", [4, 5])
def test_lengths_are_free(name, n):
    """Claims are checked anew for each length."""
    system = load_system(name, n=n)
    assert system.dim == (n if name == "advection" else 2 * n)
    assert np.isfinite(system.sample_initial(3, np.random.default_rng(0))).all()


# Celestial mechanics


def test_kepler_ellipse():
    """Position from Kepler's equation."""
    a, e = 1.1, 0.4
    initial = [a * (1 - e), 0, 0, np.sqrt((1 + e) / (a * (1 - e)))]
    states = orbit(load("kepler"), initial, 2 * np.pi * a**1.5, 10)[0]
    mean = np.linspace(0, 2 * np.pi, 11)
    anomaly = mean.copy()
    for _ in range(50):
        anomaly -= (anomaly - e * np.sin(anomaly) - mean) / (1 - e * np.cos(anomaly))
    expected = a * np.stack([np.cos(anomaly) - e, np.sqrt(1 - e**2) * np.sin(anomaly)], -1)
    np.testing.assert_allclose(states[:, :2], expected, atol=1e-10)


def test_figure_eight():
    """The period of Chenciner and Montgomery; after a third of it the bodies change places."""
    system = load("three-body")
    x, v = np.array([0.97000436, -0.24308753]), np.array([0.93240737, 0.86473146]) / 2
    initial = np.concatenate([x, -x, [0, 0], v, v, -2 * v])
    third = orbit(system, initial, 6.32591398 / 3, 3)[0]
    places = third[-1, :6].reshape(3, 2)
    np.testing.assert_allclose(places[[1, 2, 0]], initial[:6].reshape(3, 2), atol=1e-6)


def test_outer_solar_system_data():
    """Published positions, momenta from published velocities, and the orbital periods."""
    system = load("outer-solar-system")
    table = {"distribution": "formula", "random": {"unused": [0, 1]}}
    table["state"] = {"q": "q0[i]", "p": "m[i//3]*year*v0[i]"}
    z = InitialConditions(system, table, "test").sample(1, np.random.default_rng(0))[0]
    q, p = z[:18].reshape(6, 3), z[18:].reshape(6, 3)
    assert q[5].tolist() == [-15.5387357, -25.2225594, -3.1902382]
    # in the units of the book: solar masses and days
    m = [1.00000597682, 0.000954786104043, 0.000285583733151, 0.0000437273164546]
    m = np.array([*m, 0.0000517759138449, 1 / 1.3e8])
    v, gravity = p * 1e-6 / m[:, None] / 365.25, 2.95912208286e-4
    np.testing.assert_allclose(v[1], [0.00565429, -0.00412490, -0.00190589], rtol=1e-14)
    j, k = np.tril_indices(6, -1)
    energy = (m * (v**2).sum(-1)).sum() / 2
    energy -= (gravity * m[j] * m[k] / np.linalg.norm(q[j] - q[k], axis=1)).sum()
    assert system.hamiltonian(z) == pytest.approx(energy * 1e6 * 365.25**2, rel=1e-13)
    distance = np.linalg.norm(q - q[0], axis=1)[1:]
    axis = 1 / (2 / distance - (v[1:] ** 2).sum(-1) / (gravity * (m[0] + m[1:])))
    np.testing.assert_allclose(axis**1.5, [11.86, 29.4, 84, 165, 248], rtol=0.02)


# Lattices and waves


def test_toda_eigenvalues_are_constant():
    """All of them, not only the four trace that the file names (Flaschka, 1974)."""
    states = data("toda")[1][0, ::40]
    eigenvalues = []
    for q, p in zip(*np.split(states, 2, -1), strict=True):
        beside = np.exp((q - np.roll(q, -1)) / 2)
        lax = np.diag(p) + np.diag(beside[:-1], 1) + np.diag(beside[:-1], -1)
        lax[0, -1] = lax[-1, 0] = beside[-1]
        eigenvalues.append(np.linalg.eigvalsh(lax))
        powers = [np.trace(np.linalg.matrix_power(lax, k)) for k in (2, 3, 4)]
        z = np.concatenate([q, p])
        found = [load("toda").invariants[k](z) for k in ("energy", "third", "fourth")]
        np.testing.assert_allclose(np.array(found) * [2, 3, 4], powers, rtol=1e-12)
    np.testing.assert_allclose(eigenvalues[1:], [eigenvalues[0]] * (len(states) - 1), atol=1e-11)


# Others


def test_three_species_reference_solution():
    """The value that GeometricProblems.jl keeps for its tests."""
    states = orbit(load("lotka-volterra-3d"), [1, 1, 2], 10)[0, -1]
    expected = [1.2429313310230237, 2.263720576035246, 0.7108206593932]
    np.testing.assert_allclose(states, expected, rtol=1e-9)


# Field lines


def test_field_lines_are_those_of_the_tokamak():
    """dR/dphi = R*B_R/B_phi and dZ/dphi = R*B_Z/B_phi; the perturbation as it was written down."""
    system, flow = load_system("field-lines", cosine=[0.0]), load("tokamak")
    radius, height = 1.2, 0.15
    radial, toroidal, vertical = flow.vector_field(np.array([radius, 0, height]))
    found = system.vector_field(np.array([height, np.log(radius), 0.7]))
    np.testing.assert_allclose(found, [radius * vertical / toroidal, radial / toroidal, 1])
    state = np.array([height, np.log(radius), 0.7])
    perturbation = load("field-lines").hamiltonian(state) - system.hamiltonian(state)
    expected = 0.005 * ((radius - 1) ** 2 - height**2) * np.cos(0.7)
    assert perturbation == pytest.approx(expected, rel=1e-12)


def test_coils_of_field_lines_by_quadrature():
    """Biot and Savart's integral along the polygons, 40 Gaussian points a segment."""
    system = load("field-lines-coils")
    p = system.parameters
    nodes, weights = np.polynomial.legendre.leggauss(40)
    upper = np.stack([p["x"], p["y"], p["z"]], axis=-1)
    radius, height, phi = 1.15, 0.2, 0.4
    place = np.array([radius * np.cos(phi), radius * np.sin(phi), height])
    potential = 0.0
    for mirror in (1, -1):
        for c in range(6):
            cos, sin = np.cos(np.pi * c / 3), np.sin(np.pi * c / 3)
            turned = upper @ np.array([[cos, sin, 0], [-sin, cos, 0], [0, 0, mirror]])
            along = np.diff(turned, axis=0)
            points = turned[:-1, None] + along[:, None] * ((nodes + 1) / 2)[:, None]
            inverse = (weights / 2 / np.linalg.norm(place - points, axis=-1)).sum(-1)
            toroidal = along @ np.array([-np.sin(phi), np.cos(phi), 0])
            potential += p["current"][mirror * c % 6] * (toroidal * inverse).sum()
    flux = 0.4 * ((radius**2 - 1) ** 2 / 4 + 0.6 * radius**2 * height**2)
    found = system.hamiltonian(np.array([height, np.log(radius), phi]))
    assert found == pytest.approx(flux - radius * potential, abs=1e-13)
    assert abs(radius * potential) > 1e-5


# Maps


X = 2 * np.tan(np.arccos(0.24) / 2)  # of a fixed point of Henon's map


@pytest.mark.parametrize(
    ("name", "point", "trace"),
    [
        # 2 - K and 2 + K; Lichtenberg, Lieberman, eq. (3.3.3)
        ("standard-map", [np.pi, 0.0], 2 - 0.9),
        ("standard-map", [0.0, 0.0], 2 + 0.9),
        # the map rotates by a at the origin, and has another fixed point; Henon, section 3
        ("henon-map", [0.0, 0.0], 0.48),
        ("henon-map", [X, X**2 / 2], None),
    ],
)
def test_fixed_points_of_maps(name, point, trace):
    system, point = load(name), np.array(point)
    np.testing.assert_allclose(system.map(point), point, atol=1e-12)
    if trace is not None:
        assert np.trace(system.map_jacobian(point)) == pytest.approx(trace)


K, D = 1.2, 1.1  # of a cell of the ring, by the formula of thin lenses
PHASES = np.arccos([1 + D - K - K * D / 2, 1 - D + K - K * D / 2])


def test_tunes_of_the_ring_of_cells():
    """Of the eigenvalues of one cell; of a turn, eight times."""
    cell, states = load_system("fodo", cells=1), np.random.default_rng(0).uniform(-0.1, 0.1, (5, 4))
    found = np.angle(np.linalg.eigvals(cell.map_jacobian(np.zeros(4))))
    np.testing.assert_allclose(np.sort(found), np.sort([*-PHASES, *PHASES]), rtol=1e-12)
    np.testing.assert_allclose(8 * PHASES / (2 * np.pi), [1.6914, 1.4199], atol=5e-5)
    turn = states
    for _ in range(8):
        turn = cell.map(turn)
    np.testing.assert_allclose(load("fodo").map(states), turn, rtol=1e-14)


def test_double_pendulum_normal_modes():
    """Small oscillations of equal pendulums: omega**2 = 2 -+ sqrt(2)."""
    jacobian = load("double-pendulum").jacobian(np.zeros(4))
    frequencies = np.sort(np.abs(np.linalg.eigvals(jacobian).imag))
    expected = np.sqrt([2 - np.sqrt(2), 2 + np.sqrt(2)])
    np.testing.assert_allclose(frequencies, np.repeat(expected, 2), rtol=1e-12)
