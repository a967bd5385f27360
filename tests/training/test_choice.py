"""The choice among trained models."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.training.conftest import fit_with
from vpintegrator.training.results import Orbits, best

errors = st.floats(-17, 1).map(lambda exponent: 10.0**exponent)
choices = {"explicit": st.booleans(), "structured": st.booleans()}
fits = st.lists(
    st.builds(fit_with, errors, parameters=st.integers(1, 1000), **choices), min_size=1, max_size=8
)


@given(fits)
def test_nothing_much_worse_than_the_best_is_kept(candidates):
    """Three times the least error at most, or rounding; the same again for a structure."""
    least = min(each.error for each in candidates)
    assert best(candidates).error <= max(1e-14, 3 * 3 * least)

    # the order of trainings does not matter
    assert best(candidates).error == best(candidates[::-1]).error


@given(fits, errors)
def test_a_map_without_structure_errs_three_times_less(candidates, error):
    free = fit_with(error, structured=False)
    kept = [each.error for each in candidates if each.structured]
    if best([*candidates, free]) is free and kept:
        assert 3 * error < min(kept)


def test_a_map_with_structure_is_taken_within_two_standard_errors():
    free = fit_with(1e-4, structured=False, deviation=2e-4)
    kept = fit_with(5e-4, deviation=2e-5)
    assert best([free, kept]) is kept
    assert best([fit_with(1e-4, structured=False), kept]) is not kept


@pytest.mark.parametrize(
    ("explicit", "implicit", "taken"),
    [(2.9e-10, 1e-10, True), (3.1e-10, 1e-10, False), (9e-15, 1e-17, True), (1e-3, 1e-3, True)],
)
def test_explicit_maps_are_kept_within_a_factor_of_three(explicit, implicit, taken):
    first = fit_with(explicit)
    second = fit_with(implicit, explicit=False)
    assert (best([first, second]) is first) == taken


def orbits(lost=0, error=math.nan, horizon=20):
    return Orbits(count=24, steps=1000, lost=lost, horizon=horizon, error=error)


@pytest.mark.parametrize(("error", "taken"), [(9e-5, True), (1.1e-4, False)])
def test_a_map_that_loses_orbits_is_taken_where_others_err_a_hundred_times_more(error, taken):
    losing = fit_with(1e-6, orbits=orbits(lost=1))
    steady = fit_with(error, structured=False, explicit=False)
    assert (best([losing, steady]) is steady) == taken
    both = [losing, fit_with(error, orbits=orbits(lost=24))]
    assert best(both) is losing


def test_errors_along_orbits_count_as_much_as_those_of_a_step():
    """Ten times the error of a step is made up by more than ten times less along the orbit."""
    near = fit_with(1e-6, orbits=orbits(error=20 * 1e-4))
    far = fit_with(1e-5, orbits=orbits(error=20 * 1e-6))
    assert near.score == pytest.approx(1e-5) and far.score == pytest.approx(10**-5.5)
    assert best([near, far]) is far


def test_few_data_give_the_least_error():
    """Errors of left-out pairs are too uncertain for a preference."""
    first = fit_with(2e-3, judged="left out")
    second = fit_with(1e-3, explicit=False, judged="left out")
    assert best([first, second]) is second


def test_equal_errors_give_the_smallest_model():
    large = fit_with(1.0e-3, parameters=500, deviation=1e-4)
    small = fit_with(1.1e-3, parameters=50, deviation=1e-4)
    assert best([large, small]) is small
    assert best([large, fit_with(2e-3, parameters=5, deviation=1e-4)]) is large


def test_a_model_without_a_finite_error_is_the_last_to_be_kept():
    finite = fit_with(0.5, parameters=1000)
    assert best([fit_with(math.inf), finite, fit_with(math.inf, structured=False)]) is finite
    assert best([fit_with(math.inf, deviation=math.inf), finite]) is finite
