"""Weights of components in the degree, and components that are angles in effect."""

import numpy as np
import pytest

import vpintegrator as vp
from vpintegrator.training import GeneratingFunctions
from vpintegrator.training.degrees import (
    apparent_angles,
    odd_products,
    relative_rates,
    reversals,
    scaled_weights,
    tied_components,
)

RNG = np.random.default_rng


def leapfrog(z, force, step=0.2):
    """A step of Verlet for a force: a symplectic map of (q, p)."""
    q, p = np.split(z, 2, -1)
    p = p + 0.5 * step * force(q)
    q = q + step * p
    return np.concatenate([q, p + 0.5 * step * force(q)], -1)


def pairs(force, low, high, dim, count=900):
    before = RNG(0).uniform(low, high, (count, dim))
    return before, leapfrog(before, force)


def test_scaled_weights_give_so_many_terms():
    for rates in ([1.0, 1.0, 1.0], [0.3, 1.0, 2.0]):
        weights = scaled_weights(np.array(rates), degree=6, count=100)
        np.testing.assert_allclose(np.array(weights) / weights[0], np.array(rates) / rates[0], 1e-3)
        S = vp.nn.GeneratingFunction(3, degree=6, weights=weights)
        assert 75 <= S.coefficients.numel() <= 130


def test_relative_rates_find_the_minimum_of_an_error():
    best = np.array([0.5, 0.5, 4.0])

    def error(rates):
        return float(np.exp(np.abs(np.log(rates / best)).sum()))

    rates = relative_rates(error, [[0, 1], [2]], trials=200)
    assert rates[0] == rates[1]
    assert error(rates) < 1.6 < error(np.ones(3))


def test_few_evaluations_are_made():
    calls = []
    relative_rates(lambda rates: calls.append(rates) or 1 / len(calls) ** 2, [[0], [1]], trials=9)
    assert len(calls) == 9


def test_symmetries_tie_the_components_that_they_exchange():
    swap = np.eye(4)[[2, 1, 0, 3]]
    assert tied_components(swap[None], 4) == [[3], [1], [0, 2]]
    assert tied_components(np.zeros((0, 4, 4)), 2) == [[1], [0]]


def test_components_are_angles_where_the_error_says_so():
    widths = np.array([8, 8, 0.8])  # the last one is too narrow for an angle

    def error(angles):
        return 0.1 if angles == {1: 2 * np.pi} else 1.0

    assert apparent_angles(widths, error) == {1: 2 * np.pi}
    assert apparent_angles(widths, lambda angles: 1.0) == {}
    assert apparent_angles(widths, lambda angles: 0.1 ** len(angles))[0] == 2 * np.pi
    both = {0: 2 * np.pi, 1: 2 * np.pi}
    assert apparent_angles(widths, lambda angles: 0.1 if angles == both else 1.0) == both
    assert apparent_angles(widths, lambda angles: 0.1 if 0 in angles else 1.0) == {0: 2 * np.pi}


def test_polynomials_of_a_stiff_component_get_a_weight():
    """The force of one position alone is no polynomial of low degree."""
    scale = 3.0

    def force(q):
        a, b = np.split(q, 2, -1)
        return np.concatenate([-np.tanh(2 * a / scale), -b], -1) * [scale, 1.0]

    before, after = pairs(force, [-scale, -1, -scale, -1], [scale, 1, scale, 1], 4)
    kind = GeneratingFunctions(coefficients=250)
    result = vp.fit((before, after), [kind], step=0.2, progress=False)
    weights = result.model.arguments["weights"]
    assert weights[0] < 0.7 * min(weights[1:])
    assert result.model.structure.is_symplectic
    equal = min(fit.error for fit in result.tried if not fit.model.arguments.get("weights"))
    assert result.error < equal / 10
    fresh = RNG(1).uniform(-0.9, 0.9, (200, 4)) * [scale, 1, scale, 1]
    wrong = result.model.map(fresh[:, None])[:, 0] - leapfrog(fresh, force)
    assert np.sqrt((wrong**2).mean()) < 30 * result.error * scale


def test_angles_are_found_in_states_that_claim_none():
    before, after = pairs(lambda q: -np.sin(q) - np.sin(2 * q), [-9, -2], [9, 2], 2)
    kind = GeneratingFunctions(form="volume", coefficients=300)
    result = vp.fit((before, after), [kind], step=0.2, progress=False)
    ((component, period),) = result.model.arguments["periodic"]
    assert (component, period) == (0, 2 * np.pi)
    turned = result.model.map(before[:50, None] + [2 * np.pi, 0])[:, 0] - [2 * np.pi, 0]
    np.testing.assert_allclose(turned, result.model.map(before[:50, None])[:, 0], atol=1e-10)
    assert result.error < 1e-6


def test_volume_is_left_where_the_map_is_symplectic():
    """The larger polynomials of the volume form end where they gain nothing."""
    before, after = pairs(
        lambda q: -np.tanh(2 * q.sum(-1, keepdims=True)) - q, [-1] * 4, [1] * 4, 4, 600
    )
    kinds = [GeneratingFunctions(coefficients=250), GeneratingFunctions(form="volume")]
    result = vp.fit((before, after), kinds, step=0.2, progress=False)
    assert result.model.structure.is_symplectic
    volume = [fit.model for fit in result.tried if fit.model.name == "vpgf"]
    assert volume and max(model.arguments["degree"] for model in volume) == 6


def test_degrees_go_on_where_a_linear_map_in_front_gains_nothing():
    z = RNG(0).uniform(-0.4, 0.4, (800, 3))
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    after = vp.solve(vp.load_system("rigid-body"), z, np.array([0.0, 0.2]))[:, -1]
    kind = GeneratingFunctions(form="volume")
    fit = vp.fit((z[:300], after[:300]), [kind], progress=False)
    (plain, behind) = (e for e in fit.tried if e.model.arguments["degree"] == 6)
    assert plain.error < behind.error
    assert fit.error < 1e-13
    assert fit.model.arguments["degree"] > 6


def test_differences_of_angles_are_found():
    """The potential has many harmonics of the difference of two angles, one of each alone."""

    def force(q):
        a, b = np.split(q, 2, -1)
        own = -1.5 * np.sin(b - a) * np.exp(1.5 * np.cos(b - a))
        return np.concatenate([-own - np.sin(a), own - 0.5 * np.sin(b)], -1)

    before, after = pairs(force, [-6, -6, -1, -1], [6, 6, 1, 1], 4, 700)
    kind = GeneratingFunctions(coefficients=150, first_coefficients=140, weighted_terms=100)
    result = vp.fit((before, after), [kind], step=0.2, seconds=np.inf, progress=False)
    arguments = result.model.arguments
    assert {k for k, _ in arguments["periodic"]} == {0, 1}
    rows = np.array(arguments["combinations"])[:2, :2]
    assert any(np.array_equal(np.abs(row), [1, 1]) and row.sum() == 0 for row in rows)
    others = [fit.error for fit in result.tried if not fit.model.arguments.get("combinations")]
    assert result.error < min(others) / 10
    turned = result.model.map(before[:50, None] + [0, 2 * np.pi, 0, 0])[:, 0]
    expected = result.model.map(before[:50, None])[:, 0] + [0, 2 * np.pi, 0, 0]
    np.testing.assert_allclose(turned, expected, atol=1e-10)


@pytest.mark.parametrize(("tilt", "number"), [(0.0, 3), (0.3, 2)])
def test_reversing_symmetries_are_found_in_states(tilt, number):
    """Each even potential has a parity of its own, beside the reversal of all momenta."""

    def force(q):
        a, b = np.split(q, 2, -1)
        return np.concatenate([-np.tanh(2 * a) - tilt * np.cos(a), -b], -1)

    before, after = pairs(force, [-3, -1, -3, -1], [3, 1, 3, 1], 4, 500)
    kind = GeneratingFunctions(coefficients=80, first_coefficients=140, weighted_terms=60)
    result = vp.fit((before, after), [kind], step=0.2, seconds=np.inf, progress=False)
    found = result.model.arguments["reversing_symmetries"]
    assert len(found) == number
    assert found[0] == np.diag([1.0, 1, -1, -1]).tolist()


def test_reversals_turn_the_form_and_are_closed_under_odd_products():
    J = vp.nn.canonical_form(6).numpy()
    signs = reversals(6)
    assert len(signs) == 8 and signs[0] == (1, 1, 1, -1, -1, -1)
    for each in signs:
        np.testing.assert_array_equal(np.diag(each) @ J @ np.diag(each), -J)
    assert odd_products(signs[:2]) == {*signs[:2]}
    assert odd_products(signs[:3]) == {*signs[:4]}
    assert odd_products([signs[0], signs[1], signs[2], signs[4]]) == {*signs}


def test_harmonics_that_only_approximate_are_no_angles(tmp_path):
    """Displacements of springs with a sigmoid for their stiffness, wider than half a turn."""
    data = vp.generate("coupled-oscillators", tmp_path / "a.h5", count=300)
    kind = GeneratingFunctions(coefficients=150)
    result = vp.fit(data, [kind], progress=False)
    assert "periodic" not in result.model.arguments
    assert any("weighted" in each.size for each in result.tried)
    assert result.error < 1e-4
