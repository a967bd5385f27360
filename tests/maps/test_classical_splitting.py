"""Coordinate splitting, its compositions, and the Stoermer-Verlet method."""

import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rollout.systems import BLOW_UP, MIXED, initial, system
from vpintegrator.compiled import integrate
from vpintegrator.dynamics import load_system
from vpintegrator.errors import InputError
from vpintegrator.maps import METHODS, CoordinateSplitting

COMPOSITIONS = [name for name, m in METHODS.items() if isinstance(m, CoordinateSplitting)]


# order conditions, in the free associative algebra of Y_1, Y_2, ... with Y_k of degree k:
# chi_h = exp(h Y_1 + h^2 Y_2 + ...), its adjoint exp(h Y_1 - h^2 Y_2 + ...), the flow exp(h Y_1)


def product(a, b, degree):
    result = {}
    for u, x in a.items():
        for v, y in b.items():
            if sum(u) + sum(v) <= degree:
                result[u + v] = result.get(u + v, 0) + x * y
    return result


def exponential(series, degree):
    result = term = {(): mpmath.mpf(1)}
    for n in range(1, degree + 1):
        term = {word: x / n for word, x in product(term, series, degree).items()}
        result = {word: result.get(word, 0) + term.get(word, 0) for word in {*result, *term}}
    return result


def defect(factors, degree):
    """Largest coefficient in which the composition differs from the flow, degree by degree."""
    total = {(): mpmath.mpf(1)}
    for k, factor in enumerate(factors):
        a = mpmath.mpf(factor)
        series = {(j,): a**j if k % 2 == 0 else -((-a) ** j) for j in range(1, degree + 1)}
        total = product(total, exponential(series, degree), degree)
    flow = exponential({(1,): mpmath.mpf(1)}, degree)
    worst = [0.0] * (degree + 1)
    for word, value in total.items():
        worst[sum(word)] = max(worst[sum(word)], abs(float(value - flow.get(word, 0))))
    return worst


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_order_conditions_hold_to_rounding_and_no_further(name):
    method = METHODS[name]
    *met, missed = defect(method.factors, method.order + 1)
    assert max(met) < 1e-15
    assert missed > 1e-5


def test_coordinate_splitting_written_out():
    s, h = system("rigid-body"), 0.3
    z = initial("rigid-body")
    for order, factors in (([0, 1, 2], (1.0,)), ([2, 1, 0], (0.0, 1.0))):
        expected = z.copy()
        for i in order:
            expected[:, i] += h * s.vector_field(expected)[:, i]
        method = replace(METHODS["coordinate-splitting"], factors=factors)
        assert np.allclose(method.step(s, z, h), expected, rtol=0, atol=1e-16)


@pytest.mark.parametrize("which", ["pendulum", "coupled-oscillators"])
def test_strang_splitting_is_verlet_with_the_drift_first(which):
    s, z, h = system(which), initial(which), 0.3
    # the same map but for where a step begins: half a drift carries one into the other
    chi = METHODS["coordinate-splitting"]
    adjoint = replace(chi, factors=(0.0, 1.0))
    for name, first, second in (
        ("strang-splitting", chi, adjoint),
        ("stoermer-verlet", adjoint, chi),
    ):
        expected = second.step(s, first.step(s, z, h / 2), h / 2)
        assert np.allclose(METHODS[name].step(s, z, h), expected, rtol=0, atol=1e-15)


@given(h=st.floats(-1.0, 1.0), seed=st.integers(0, 10**6), name=st.sampled_from(COMPOSITIONS))
def test_volume_is_exact_at_any_step(h, seed, name):
    for which in ("rigid-body", "abc-flow"):
        s, z = system(which), initial(which, 3, seed)
        derivative = METHODS[name].derivative(s, z, h)
        # rounding grows with the size of the entries that cancel
        size = np.prod(np.linalg.svd(derivative, compute_uv=False)[:, :2], axis=1)
        defect = np.abs(np.linalg.det(derivative) - 1)
        assert (defect < 1e-14 * np.maximum(size, 10)).all()


@pytest.mark.parametrize("h", [0.1, 0.7, 1.5])
def test_modified_frequency_and_energy_of_stoermer_verlet(h):
    s, steps = system("harmonic-oscillator"), 2000
    states = integrate(s, "stoermer-verlet", [[1.0, 0.0], [1.0, 0.3]], h, steps)
    frequency = 2 * math.asin(h / 2) / h
    assert np.allclose(states[0, :, 0], np.cos(frequency * h * np.arange(steps + 1)), atol=1e-11)
    q, p = states[1].T
    energy = p**2 / 2 + (1 - h**2 / 4) * q**2 / 2
    assert np.abs(energy / energy[0] - 1).max() < 1e-14 * max(1, h)
    assert np.ptp(p**2 / 2 + q**2 / 2) > 1e-4


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("stoermer-verlet", system("rigid-body").text, "given by a vector field"),
        ("stoermer-verlet", MIXED, "mixes positions and momenta"),
        ("strang-splitting", MIXED, r"the rate of q depends on q; .* such as implicit-midpoint"),
        ("yoshida-6", BLOW_UP, r"the rate of x depends on x; .* such as implicit-midpoint"),
    ],
)
def test_why_a_method_does_not_apply(name, text, message):
    with pytest.raises(InputError, match=message):
        METHODS[name].check(load_system(text))


def test_factors_that_do_not_sum_to_one():
    with pytest.raises(InputError, match=r"sum to 0\.9, not 1"):
        replace(METHODS["strang-splitting"], factors=(0.4, 0.5))
