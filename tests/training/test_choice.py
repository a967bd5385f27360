"""The choice among trained models."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.training.conftest import fit_with
from vpintegrator.training.results import best

errors = st.floats(-17, 1).map(lambda exponent: 10.0**exponent)
choices = {"explicit": st.booleans(), "structured": st.booleans()}
fits = st.lists(
    st.builds(fit_with, errors, parameters=st.integers(1, 1000), **choices), min_size=1, max_size=8
)


@given(fits)
def test_nothing_much_worse_than_the_best_is_kept(candidates):
    """Ten times the least error at most, or rounding; the same again for a structure."""
    least = min(each.error for each in candidates)
    assert best(candidates).error <= max(1e-14, 10 * 10 * least)

    # the order of trainings does not matter
    assert best(candidates).error == best(candidates[::-1]).error


@given(fits, errors)
def test_a_map_without_structure_errs_ten_times_less(candidates, error):
    free = fit_with(error, structured=False)
    kept = [each.error for each in candidates if each.structured]
    if best([*candidates, free]) is free and kept:
        assert 10 * error < min(kept)


@pytest.mark.parametrize(
    ("explicit", "implicit", "taken"),
    [(9e-10, 1e-10, True), (1.1e-9, 1e-10, False), (9e-15, 1e-17, True), (1e-3, 1e-3, True)],
)
def test_explicit_maps_are_kept_within_a_factor_of_ten(explicit, implicit, taken):
    first, second = fit_with(explicit), fit_with(implicit, explicit=False)
    assert (best([first, second]) is first) == taken


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
