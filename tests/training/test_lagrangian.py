"""Discrete Lagrangians from positions: accuracy, normalisation, form, energy, bad data."""

import math
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import vpintegrator as vp
from vpintegrator.compiled import CompiledModel
from vpintegrator.data.pairs import Pairs
from vpintegrator.dynamics.structure import own_form_defect
from vpintegrator.errors import InputError
from vpintegrator.models import DiscreteLagrangianMap
from vpintegrator.training.lagrangian import check_condition, fit_windows, refine_lagrangian
from vpintegrator.training.training_data import TrainingData

TURN = 2 * np.pi


def positions(system, path, count=150, steps=12):
    """Complete states (trajectory, time, dim) of train and test groups."""
    dataset = vp.generate(system, path / f"{system}.h5", count=count, steps=steps, overwrite=True)
    return dataset.states("train"), dataset.states("test"), dataset.step


def fitted(q, step, degree, **arguments):
    """A model fitted to positions (trajectory, time, n)."""
    n = q.shape[2]
    arguments = {"reversing_symmetries": [np.eye(n)]} | arguments
    model = DiscreteLagrangianMap(dim=n, degree=degree, **arguments)
    model.set_normalisation(q.mean((0, 1)), 2.0 ** np.round(np.log2(q.std((0, 1)))))
    model.origin = vp.models.Origin(step=step)
    return model, fit_windows(model, Pairs.of_states(q, 2, 1).pair(slice(None)))


def error(model, q):
    """Error of the next position, relative to the spread."""
    pair = Pairs.of_states(q, 2, 1).pair(slice(None))
    difference = model.map(pair.inputs.numpy())[:, 1] - pair.targets.numpy()[:, 1]
    return np.sqrt((difference**2).sum(1).mean() / q.var((0, 1)).sum())


@pytest.fixture(scope="module")
def galaxy(tmp_path_factory):
    train, test, step = positions("henon-heiles", tmp_path_factory.mktemp("positions"))
    return fitted(train[..., :2], step, 8)[0], train, test


def test_henon_heiles_is_found_to_rounding(galaxy):
    model, _, test = galaxy
    assert error(model, test[..., :2]) < 1e-13
    assert own_form_defect(model, test[:20, :2, :2]) < 1e-12


@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 10**6), size=st.sampled_from([1e-6, 1e-3]))
def test_the_form_is_kept_near_trained_coefficients(galaxy, seed, size):
    model, _, test = galaxy
    windows, c = test[:10, :2, :2], model.core.function.coefficients
    before = c.detach().clone()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        c.mul_(1 + size * torch.randn(c.shape, generator=generator, dtype=torch.float64))
        assert own_form_defect(model, windows) < 1e-12
        c.copy_(before)


def test_momenta_are_those_of_the_system_and_energy_does_not_drift(galaxy):
    model, _, test = galaxy
    windows = test[:, :2, :2]
    assert np.abs(model.momenta(windows) - test[:, 1, 2:]).max() < 1e-10
    assert np.abs(model.velocities(windows) - test[:, 1, 2:]).max() < 1e-8
    energy = vp.load_system("henon-heiles").invariants["energy"]
    orbit = np.concatenate([windows[:8], *CompiledModel(model, 8).advance(windows[:8], 3000)], 1)
    values = [
        energy(np.concatenate([orbit[:, k + 1], model.momenta(orbit[:, k : k + 2])], 1))
        for k in (0, 1000, 2000, 3000)
    ]
    assert np.abs(np.array(values) - values[0]).max() < 1e-9


def test_a_complete_state_begins_an_orbit(galaxy):
    model, _, test = galaxy
    ends, slopes = test[:, 1, :2], test[:, 1, 2:]
    for start in ({"momenta": slopes}, {"velocities": slopes}):
        assert np.abs(model.start(ends, **start)[:, 0] - test[:, 0, :2]).max() < 1e-9


def test_angles_are_taken_by_their_harmonics(tmp_path):
    train, test, step = positions("pendulum", tmp_path)
    symmetries = [np.eye(1), -np.eye(1)]
    options = {"periodic": [(0, TURN)], "reversing_symmetries": symmetries}
    model, _ = fitted(train[..., :1], step, 8, **options)
    assert error(model, test[..., :1]) < 1e-12
    wrapped = (test[..., :1] + np.pi / 2) % TURN
    unwrapped = wrapped + TURN * np.cumsum(
        np.concatenate(
            [np.zeros((len(test), 1, 1)), -np.round(np.diff(wrapped, axis=1) / TURN)], 1
        ),
        axis=1,
    )
    assert np.ptp(unwrapped - wrapped) > 0  # some orbits cross the jump
    shifted, _ = fitted(
        (train[..., :1] + np.pi / 2) % TURN,
        step,
        10,
        **options | {"reversing_symmetries": [np.eye(1)]},
    )
    pair = Pairs.of_states(wrapped, 2, 1).pair(slice(None))
    missed = (shifted.map(pair.inputs.numpy()) - pair.targets.numpy())[:, 1]
    assert np.abs((missed + np.pi) % TURN - np.pi).max() < 1e-11


def test_the_mean_curvature_is_held_and_not_one_coefficient(tmp_path):
    """With one coefficient held, L vanishes on the data: an error of 1e-3 at any degree."""
    train, test, step = positions("pendulum", tmp_path)
    model, _ = fitted(train[..., :1], step, 16)
    assert error(model, test[..., :1]) < 1e-12
    assert model.condition(test[:, :2, :1]) == pytest.approx(1)


def test_a_magnetic_field_needs_terms_that_are_odd_in_displacements():
    """A charge on circles: exact positions of q'' = B J q'."""
    rng, t = np.random.default_rng(0), 0.2 * np.arange(8)
    centre, radius = rng.uniform(-1, 1, (40, 1, 2)), rng.uniform(0.2, 1, (40, 1))
    phase = rng.uniform(0, TURN, (40, 1)) + t
    q = centre + np.stack([radius * np.cos(phase), radius * np.sin(phase)], -1)
    even, _ = fitted(q, 0.2, 2)
    every, _ = fitted(q, 0.2, 2, reversing_symmetries=())
    assert error(every, q) < 1e-13 < 1e-3 < error(even, q)


def test_a_damped_oscillator_is_followed_with_linear_damping():
    """q'' + 0.3 q' + q = 0, exact positions."""
    rng, t = np.random.default_rng(0), 0.2 * np.arange(10)
    w, (a, b) = np.sqrt(1 - 0.15**2), rng.normal(size=(2, 30, 1))
    q = (np.exp(-0.15 * t) * (a * np.cos(w * t) + b * np.sin(w * t)))[..., None]
    free, _ = fitted(q, 0.2, 2)
    damped, _ = fitted(q, 0.2, 2, damping="linear")
    assert error(damped, q) < 1e-13 < 1e-2 < error(free, q)


def test_training_takes_it_as_any_other_model(galaxy, tmp_path):
    _, train, test = galaxy
    dataset = vp.import_dataset(np.concatenate([train, test])[..., :2], tmp_path / "q.h5", step=0.2)
    model = DiscreteLagrangianMap(dim=2, degree=8, reversing_symmetries=[np.eye(2)])
    history = vp.train(model, dataset)
    assert history.best_validation_error < 1e-13 and model.step == 0.2


def test_a_badly_conditioned_lagrangian_is_said():
    """A component that never moves: nothing determines its row."""
    q = np.zeros((30, 8, 2))
    t = 0.2 * np.arange(8) + np.arange(30)[:, None]
    q[..., 0] = np.cos(t) * np.linspace(0.1, 1, 30)[:, None]
    model = DiscreteLagrangianMap(dim=2, degree=2, reversing_symmetries=[np.eye(2)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit_windows(model, Pairs.of_states(q, 2, 1).pair(slice(None)))
    with torch.no_grad():
        v = model.core.function.terms.chosen.tolist().index([0, 0, 0, 2])
        model.core.function.coefficients[v] = -(model.core.function.box_scale[3] ** 2) * 9 / 4
    with pytest.warns(UserWarning, match=r"D1 D2 L .* badly conditioned"):
        check_condition(model, Pairs.of_states(q, 2, 1).pair(slice(None)))


def test_mistakes():
    q = np.random.default_rng(0).normal(size=(3, 3, 2))
    with pytest.raises(InputError, match="give more orbits, or a lower degree"):
        fitted(q, 0.1, 4)
    pair = Pairs.of_states(q, 2, 1).pair(slice(None))
    pair.inputs[0, 0, 0] = torch.inf
    with pytest.raises(InputError, match="not finite"):
        fit_windows(DiscreteLagrangianMap(dim=2, degree=1), pair)


def observed(system, path, **options):
    """Positions of a system as a file of measurements has them."""
    train, test, step = positions(system, path, **options)
    q = np.concatenate([train, test])[..., : train.shape[2] // 2]
    return vp.import_dataset(q, path / "observed.h5", step=step, overwrite=True)


def test_the_default_finds_positions_of_a_mechanical_system(tmp_path):
    dataset = observed("henon-heiles", tmp_path)
    few = ("linear maps", "discrete Lagrangians")
    kinds = [kind for kind in vp.training.KINDS if kind.name in few]
    result = vp.fit(dataset, kinds, seconds=math.inf)
    assert len(kinds) == len(result.kinds) == 2
    assert (result.kind, result.model.name) == ("discrete Lagrangians", "lagrangian")
    assert result.error < 1e-12 and "variational" in str(result)
    flips = np.array(result.model.structure.reversing_symmetries)
    assert flips.tolist() == [np.eye(2).tolist(), np.diag([-1.0, 1.0]).tolist()]


def test_complete_states_and_claims_are_left_to_other_maps(tmp_path):
    kind = vp.training.DiscreteLagrangians()
    body = TrainingData(vp.generate("pendulum", tmp_path / "a.h5", count=10, steps=5))
    assert "known equations" in kind.admits(body)
    states = np.random.default_rng(0).normal(size=(10, 5, 2))
    claimed = vp.import_dataset(states, tmp_path / "b.h5", step=1.0, structure="symplectic")
    assert "another structure" in kind.admits(TrainingData(claimed))
    pairs = vp.import_dataset(states[:, :2], tmp_path / "c.h5", step=1.0, structure="none")
    assert "three positions" in kind.admits(TrainingData(pairs))
    single = SimpleNamespace(error=1e-8, model=SimpleNamespace(window=1))
    pairs = SimpleNamespace(error=1e-8, model=SimpleNamespace(window=2))
    assert not kind.is_needed(body, [single, pairs])
    assert kind.is_needed(body, [pairs]) and kind.is_needed(body, [])


def test_a_magnetic_field_is_found_without_symmetries(tmp_path):
    """Reversible Lagrangians err by 1e-2, and are left out."""
    rng, t = np.random.default_rng(0), 0.2 * np.arange(12)
    centre, radius = rng.uniform(-1, 1, (60, 1, 2)), rng.uniform(0.2, 1, (60, 1))
    phase = rng.uniform(0, TURN, (60, 1)) + t
    q = centre + np.stack([radius * np.cos(phase), radius * np.sin(phase)], -1)
    dataset = vp.import_dataset(q, tmp_path / "q.h5", step=0.2)
    result = vp.fit(dataset, [vp.training.search("lagrangian")])
    assert result.error < 1e-12 and not result.model.structure.reversing_symmetries
    assert "no symmetries" in result.size


def test_refinement_follows_noisy_orbits_further(tmp_path):
    """Positions of the pendulum with noise of 1e-3 of their spread."""
    train, test, step = positions("pendulum", tmp_path, count=200, steps=12)
    q, exact = train[..., :1], test[..., :1]
    noise = 1e-3 * q.std()
    noisy = q + noise * np.random.default_rng(0).normal(size=q.shape)
    model, _ = fitted(noisy, step, 6)
    before = error(model, exact)
    distance = refine_lagrangian(model, noisy)
    assert error(model, exact) < before / 3
    # of N + 1 positions of an orbit, all but two are equations
    assert distance == pytest.approx(noise / q.std() * np.sqrt(11 / 13), rel=0.1)
    assert own_form_defect(model, exact[:10, :2]) < 1e-12


def test_refinement_with_too_many_coefficients_stays_regular(tmp_path):
    """Without a larger penalty D1 D2 L becomes singular at some positions."""
    train, test, step = positions("pendulum", tmp_path, count=200, steps=12)
    q, exact = train[..., :1], test[..., :1]
    noisy = q + 1e-3 * q.std() * np.random.default_rng(0).normal(size=q.shape)
    model, _ = fitted(noisy, step, 6, periodic=[(0, TURN)])
    before = error(model, exact)
    refine_lagrangian(model, noisy)
    assert error(model, exact) < 3 * before  # the noise of 1e-3 hides smaller changes


def test_refinement_leaves_exact_orbits_alone(galaxy):
    model, train, test = galaxy
    before = error(model, test[..., :2])
    assert refine_lagrangian(model, train[:40, :, :2], iterations=2) < 1e-13
    assert error(model, test[..., :2]) < 100 * before


@pytest.mark.parametrize(
    ("orbits", "message"),
    [(np.zeros((3, 2, 2)), "three or more times"), (np.full((3, 4, 2), np.nan), "not finite")],
)
def test_orbits_that_cannot_be_refined(galaxy, orbits, message):
    with pytest.raises(InputError, match=message):
        refine_lagrangian(galaxy[0], orbits)


def turning(count, gamma=0.0, steps=12, seed=0):
    """Positions (orbit, time, 1) of a pendulum with linear drag, by a fine Runge-Kutta method."""
    rng = np.random.default_rng(seed)
    z = rng.uniform(-1, 1, (count, 2))
    result = [z[:, :1]]

    def slope(z):
        return np.stack([z[:, 1], -np.sin(z[:, 0]) - gamma * z[:, 1]], -1)

    h = 0.2 / 40
    for _ in range(steps):
        for _ in range(40):
            a = slope(z)
            b = slope(z + h / 2 * a)
            c = slope(z + h / 2 * b)
            z = z + h / 6 * (a + 2 * b + 2 * c + slope(z + h * c))
        result.append(z[:, :1])
    return np.stack(result, 1)


def searched(q, step=0.2, **options):
    """The discrete Lagrangian that a search finds."""
    return vp.fit(q, [vp.training.search("lagrangian")], step=step, seconds=math.inf, **options)


SPRING = """
state = ["r", "theta", "p", "l"]
hamiltonian = "p**2/2 + l**2/(2*r**2) - r*cos(theta) + 6*(r - 1)**2"
defaults = { step = 0.1 }
[initial_conditions]
distribution = "uniform"
low = [0.95, -1, -0.3, -0.4]
high = [1.25, 1, 0.3, 0.4]
"""


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
def test_a_bounded_component_is_no_angle(order, tmp_path):
    """Harmonics of the radius lower the error no more than as many polynomials."""
    dataset = vp.generate(vp.load_system(SPRING), tmp_path / "a.h5", count=120, steps=10)
    states = np.concatenate([dataset.states(group) for group in dataset.shapes])
    kind = vp.training.kinds.DiscreteLagrangians(coefficients=110)
    result = vp.fit(states[..., order], [kind], step=dataset.step)
    assert result.model.arguments["periodic"] == [[order.index(1), TURN]]


def test_angles_in_radians_are_found_by_the_error():
    """A particle on a ring in a potential of two harmonics: no position wraps."""
    rng = np.random.default_rng(0)
    z = rng.uniform(-1, 1, (150, 2)) * [2.5, 1.0]
    q, h = [z[:, :1]], 0.2 / 40
    for _ in range(12):
        for _ in range(40):  # Störmer-Verlet: the map itself is variational
            p = z[:, 1] - h / 2 * (np.sin(z[:, 0]) + np.sin(2 * z[:, 0]))
            x = z[:, 0] + h * p
            z = np.stack([x, p - h / 2 * (np.sin(x) + np.sin(2 * x))], -1)
        q.append(z[:, :1])
    result = searched(np.stack(q, 1))
    assert result.model.arguments["periodic"] == [[0, TURN]] and "angles" in result.size
    assert result.error < 1e-12


def test_fewer_powers_of_displacements_leave_more_of_middles():
    n = 2
    few, many = (
        DiscreteLagrangianMap(dim=n, degree=6, displacement_order=order).core.function.terms
        for order in (2, 1)
    )
    degrees = np.array(many.chosen.tolist())
    wanted = degrees[:, :n].sum(1) + 2 * degrees[:, n:].sum(1) <= 6
    assert sorted(few.chosen.tolist()) == sorted(degrees[wanted].tolist())
    with pytest.raises(InputError, match="must be 1 or 2"):
        DiscreteLagrangianMap(dim=1, displacement_order=3)


def test_exchanged_particles_are_found():
    """Three equal particles on a ring of nonlinear springs, which move little."""
    rng = np.random.default_rng(0)
    x, v = rng.uniform(-1, 1, (2, 150, 3))
    q, h = [x], 0.2 / 20

    def force(x):
        stretch = np.roll(x, -1, 1) - x
        pull = stretch + 0.1 * stretch**3
        return pull - np.roll(pull, 1, 1) - x - 0.3 * x**3

    for _ in range(8):
        for _ in range(20):
            v = v + h / 2 * force(x)
            x = x + h * v
            v = v + h / 2 * force(x)
        q.append(x)
    result = vp.fit(
        np.stack(q, 1),
        [vp.training.DiscreteLagrangians(highest=4)],
        step=0.2,
        seconds=math.inf,
    )
    flips = np.array(result.model.structure.reversing_symmetries)
    assert any((rho == np.eye(3)[::-1]).all() for rho in flips)
    assert result.error < 0.1


def test_drag_is_found_unless_a_form_is_required():
    q = turning(100, 0.3)
    result = searched(q)
    assert result.model.core.damped and "linear damping" in result.size
    assert result.error < 1e-8 and result.model.structure.form == "none"
    kept = searched(q, structure="lagrangian")
    assert not kept.model.core.damped and kept.error > 100 * result.error


def test_complete_states_of_a_damped_system_are_no_positions(tmp_path):
    """Equations of three positions may be solved where the iterated map is lost."""
    rng, t = np.random.default_rng(0), 0.2 * np.arange(9)
    w, (a, b) = np.sqrt(1 - 0.15**2), rng.normal(size=(2, 30, 1))
    q = np.exp(-0.15 * t) * (a * np.cos(w * t) + b * np.sin(w * t))
    p = np.gradient(q, t, axis=1)
    states = np.stack([q, p + 0.3 * q**2], -1)
    solved = [kind for kind in vp.training.KINDS if not kind.iterative]
    result = vp.fit(states, solved, step=0.2, seconds=math.inf)
    test = vp.import_dataset(states, tmp_path / "damped.h5", step=0.2)
    error, _ = TrainingData(test).test_error(result.model)
    assert error < 100 * result.error


def test_noisy_orbits_are_refined_and_held_out_orbits_decide():
    q = turning(200)
    exact, clean = turning(40, seed=1, steps=40), searched(q)
    assert not any("refined" in fit.size for fit in clean.tried)
    noisy = q + 1e-3 * q.std() * np.random.default_rng(0).normal(size=q.shape)
    result = searched(noisy)
    assert "refined on noisy orbits" in result.size and not result.superseded
    linear = min((f for f in result.tried if "refined" not in f.size), key=lambda f: f.error)
    errors = [
        np.abs(np.concatenate([*f.model.advance(exact[:, :2], 39)], 1)[:, -1] - exact[:, -1])
        for f in (result, linear)
    ]
    assert np.median(errors[0]) < np.median(errors[1]) / 3
