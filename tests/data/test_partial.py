"""Identification from positions, or sums of components, alone."""

import numpy as np
import pytest

import vpintegrator as vp
from vpintegrator.data.partial import (
    IdentifiedSystem,
    Observed,
    PredictedOrbits,
    identify,
    learn_potential,
)
from vpintegrator.data.partial.flows import FlowOrbits
from vpintegrator.data.partial.potential import PotentialBasis, SplittingOrbits
from vpintegrator.errors import InputError

GRAVITY = 1.3


def observe(matrix, count=8, length=40, end=12.0, noise=0.01, seed=0, system="pendulum", **given):
    """Irregular, noisy observations, and the states."""
    generator = np.random.default_rng(seed)
    system = vp.load_system(system, **given)
    times = np.sort(generator.uniform(0, end, (count, length)), axis=1)
    first = system.sample_initial(count, generator)
    states = FlowOrbits(system)(np.empty(0), first, times)
    values = states @ np.asarray(matrix, dtype=float).T
    return times, values + noise * generator.normal(size=values.shape), states


def table(path, times, values, name):
    rows = [
        f"{n},{t!r},{y!r}"
        for n, (time, value) in enumerate(zip(times.tolist(), values[..., 0].tolist(), strict=True))
        for t, y in zip(time, value, strict=True)
    ]
    path.write_text("\n".join([f"run,time,{name}", *rows]) + "\n")
    return path


@pytest.fixture(scope="module")
def seen():
    return observe(np.eye(1, 2), g=GRAVITY)


@pytest.fixture(scope="module")
def learned(seen):
    times, values, _ = seen
    return learn_potential(Observed.of(times, values), ["theta"], periods={0: 2 * np.pi})


@pytest.mark.parametrize("periods", [{}, {0: 2 * np.pi}, {0: 1.5, 1: 2 * np.pi}])
def test_derivatives_of_potentials(periods):
    generator = np.random.default_rng(0)
    q = generator.uniform(-1, 2, (5, 2))
    basis = PotentialBasis.of(["x", "y"], q, periods, 3)
    theta = generator.normal(size=len(basis.terms))
    text = basis.unscaled().text([f"{c!r}" for c in (basis.units * theta).tolist()])

    def potential(q):
        names = {"sin": np.sin, "cos": np.cos, "x": q[:, 0], "y": q[:, 1]}
        return eval(text, {}, names)  # written above

    gradients, hessian = basis.derivatives(q, np.broadcast_to(theta, (5, len(theta))))
    for j, shift in enumerate(1e-6 * np.eye(2)):
        slope = (potential(q + shift) - potential(q - shift)) / 2e-6
        np.testing.assert_allclose(gradients[:, j] @ theta, slope, atol=1e-7)
        ahead, behind = (basis.derivatives(q + s * shift)[0] @ theta for s in (1, -1))
        np.testing.assert_allclose(hessian[:, j], (ahead - behind) / 2e-6, atol=1e-7)


def test_orbits_of_a_potential_are_symplectic_and_of_fourth_order():
    basis = PotentialBasis.of(["q"], np.array([[-2.0], [2.0]]), {}, 4)
    theta = np.array([0.1, -0.5, 0.0, 0.25])
    times, first = np.array([[0.0, 0.7, 2.0]]), np.array([[1.2, 0.3]])
    found = [SplittingOrbits(basis, np.ones(1), h)(theta, first, times) for h in (0.2, 0.1, 0.05)]
    ratio = np.abs(found[0] - found[1]).max() / np.abs(found[1] - found[2]).max()
    assert 10 < ratio < 30
    _, _, by = SplittingOrbits(basis, np.ones(1), 0.2).tangent(theta, first, times)
    np.testing.assert_allclose(np.linalg.det(by[0]), 1, atol=1e-13)


def test_derivatives_of_orbits_agree():
    basis = PotentialBasis.of(["q"], np.zeros((1, 1)), {0: 2 * np.pi}, 1)
    times, first = np.array([[0.0, 0.5, 2.0], [0.0, 1.0, 1.0]]), np.array([[1.0, 0.0], [0.2, 0.5]])
    exact = SplittingOrbits(basis, np.ones(1), 0.05).tangent(np.array([-1.0, 0.0]), first, times)
    system = vp.load_system("pendulum")
    close = FlowOrbits(system, ["g"]).tangent(np.array([1.0]), first, times)
    np.testing.assert_allclose(exact[0], close[0], atol=1e-7)
    np.testing.assert_allclose(exact[1][..., 0], -close[1][..., 0], atol=1e-4)
    np.testing.assert_allclose(exact[2], close[2], atol=1e-4)


def test_a_potential_is_learned_from_angles_alone(learned):
    model = learned.model
    assert learned.degree == 1 and learned.scores[1] < learned.scores[2]
    assert (np.abs(model.values - [-GRAVITY, 0]) < 4 * model.errors).all()
    assert model.errors.max() < 0.01 and model.noise == pytest.approx(0.01, rel=0.15)
    drawn = np.array([list(system.parameters.values()) for system in model.sample(20)])
    np.testing.assert_allclose(drawn.std(axis=0), model.errors, rtol=0.5)
    assert model.system.structure == "Hamiltonian" and model.system.reversing_symmetries


def test_unseen_orbits_are_predicted_with_their_uncertainty(learned):
    times, values, states = observe(np.eye(1, 2), count=6, seed=5, g=GRAVITY)
    at = np.linspace(13, 40, 20)
    start = states[:, 0]
    grid = np.concatenate([times[:, :1], np.broadcast_to(at, (6, 20))], axis=1)
    truth = FlowOrbits(vp.load_system("pendulum", g=GRAVITY))(np.empty(0), start, grid)[:, 1:]
    found = learned.model.predict(times[:, :20], values[:, :20], at, draws=40)
    low, high = found.band(0.99)
    assert np.sqrt(np.square(found.states - truth).mean()) < 0.2
    assert ((low < truth) & (truth < high)).mean() > 0.85


def test_substeps_of_a_double_well_are_accurate_beside_small_noise():
    generator = np.random.default_rng(0)
    true = np.array([0.0, -0.5, 0.0, 0.25])
    exact = SplittingOrbits(
        PotentialBasis(["q"], np.zeros(1), np.ones(1), [False], 4), np.ones(1), 0.02
    )
    times = np.sort(generator.uniform(0, 18, (10, 60)), axis=1)
    first = generator.uniform(-1, 1, (10, 2)) * [1.5, 0.8]
    values = exact(true, first, times)[..., :1]
    values += 1e-4 * generator.normal(size=values.shape)
    learned = learn_potential(Observed.of(times, values), ["q"], degree=4)
    assert learned.length == 60 and learned.model.noise == pytest.approx(1e-4, rel=0.15)
    deviation = learned.model.values - true
    assert deviation @ np.linalg.solve(learned.model.covariance, deviation) < 20  # chi-square of 4


def test_a_further_draw_lies_in_the_band_with_its_probability():
    ranks = np.arange(1.0, 20.0).reshape(19, 1, 1, 1)
    low, high = PredictedOrbits(ranks[0], ranks).band(0.9)
    assert (low.item(), high.item()) == (1, 19)  # 18 of 20 places among 19 draws
    low, high = PredictedOrbits(ranks[0], ranks).band(0.5)
    assert (low.item(), high.item()) == (5, 15)


def test_orbits_on_a_grid_agree_with_those_at_other_times():
    orbits, first = FlowOrbits(vp.load_system("pendulum"), ["g"]), np.array([[1.0, 0.3]])
    even = np.array([[0.0, 0.5, 1.0, 2.0, 2.0]])
    uneven = np.array([[0.0, 0.5, 0.77, 1.0, 2.0]])
    theta = np.array([1.3])
    one, other = orbits(theta, first, even), orbits(theta, first, uneven)
    np.testing.assert_allclose(one[:, [1, 2, 3]], other[:, [1, 3, 4]], atol=1e-7)
    np.testing.assert_array_equal(one[:, 3], one[:, 4])
    moved = orbits(theta, first, np.array([[0.0, 0.0]]))
    np.testing.assert_array_equal(moved[:, 1], first)


def test_parameters_of_a_known_system_from_a_sum_of_components():
    matrix = np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    times, values, _ = observe(matrix, count=5, system="rigid-body")
    begun = vp.load_system("rigid-body", I1=1.9)
    model = identify(begun, ["I1"], Observed.of(times, values, matrix))
    assert abs(model.values[0] - 2) < 4 * model.errors[0] < 0.1
    np.testing.assert_allclose(model.noise, 0.01, rtol=0.2)


def test_what_the_data_do_not_determine_is_refused(seen):
    times, values, _ = seen
    observed = Observed.of(times, values, np.eye(1, 2))
    with pytest.raises(InputError, match="do not determine the parameters"):
        identify(vp.load_system("pendulum", g=GRAVITY), ["m"], observed)


def test_import_of_an_angle_for_a_known_system(seen, tmp_path):
    times, values, _ = seen
    source = table(tmp_path / "angle.csv", times, values, "theta")
    dataset = vp.import_dataset(source, tmp_path / "angle.h5", system="pendulum", fit=["g"])
    model = IdentifiedSystem.read(dataset)
    assert dataset.system.parameters["g"] == pytest.approx(GRAVITY, abs=5 * model.errors[0])
    assert "p is reconstructed" in dataset.recipe and 'reconstructed = ["p"]' in dataset.recipe
    drift = np.ptp(dataset.system.invariants["energy"](dataset.states("train")), axis=1)
    assert drift.max() < 1e-6  # states of an orbit of the system


def test_a_wrong_system_is_told_by_its_residuals(seen, tmp_path):
    times, values, _ = seen
    data = {"states": values, "time": times}
    with pytest.warns(UserWarning, match="do NOT describe"):
        vp.import_dataset(data, tmp_path / "a.h5", system="harmonic-oscillator", observed=["q"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"observed": ["q"]}, "give --system"),
        ({"angles": ["q"]}, "angles is for a potential"),
        ({"positions_only": True, "observed": ["q"]}, "leave positions_only out"),
        ({"positions_only": True, "masses": [1, 2]}, "masses = .* a positive number for each"),
        ({"system": "pendulum", "observed": ["q p"]}, "expected a sum of components"),
        ({"system": "pendulum", "observed": ["theta"]}, "no component 'theta'"),
        ({"system": "pendulum", "observed": ["q", "p"]}, "say what each column is"),
        ({"system": "pendulum", "fit": ["l0"]}, "no parameter 'l0'"),
        ({"system": "rigid-body"}, "say what each column is with --observed"),
        ({"system": "henon-map", "observed": ["x"]}, "vector field"),
    ],
)
def test_mistakes(options, message, seen, tmp_path):
    data = {"states": seen[1], "time": seen[0]}
    with pytest.raises(InputError, match=message):
        vp.import_dataset(data, tmp_path / "a.h5", **options)
    assert not (tmp_path / "a.h5").exists()
