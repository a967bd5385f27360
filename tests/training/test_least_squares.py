"""Least squares against NumPy, refits and SciPy."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from vpintegrator.errors import InputError
from vpintegrator.training.least_squares import (
    DampedIteration,
    LeftOut,
    NormalEquations,
    Residual,
    SequentialQR,
    Spectrum,
    trimmed,
)

RNG = np.random.default_rng


def factored(A, b, keep=False):
    """The factor of equations (row, column) or (group, row, column)."""
    qr, right = SequentialQR(A.shape[-1], keep), b.shape[A.ndim - 1 :]
    qr.add(A.reshape(-1, A.shape[-1]), b.reshape(-1, *right))
    return qr


def solved(qr, **options):
    return next(qr.solutions([1e-13], **options))


# linear problems


def test_sequential_factors_are_those_of_all_rows():
    A, b = RNG(0).normal(size=(60, 7)), RNG(1).normal(size=(60, 2))
    whole, parts = factored(A, b), SequentialQR(7)
    for rows in np.split(np.arange(60), [1, 5, 6, 30, 59]):
        parts.add(A[rows], b[rows])
    assert parts.rows == whole.rows == 60
    expected = np.linalg.lstsq(A, b)[0]
    for qr in (whole, parts):
        np.testing.assert_allclose(solved(qr).coefficients, expected, atol=1e-14)
        assert solved(qr).rank == 7


def test_dependent_columns_get_no_coefficient():
    A, b = RNG(0).normal(size=(40, 5)), RNG(1).normal(size=40)
    A[:, 3] = A[:, 0] - 2 * A[:, 1]
    qr = factored(A, b)
    expected = np.linalg.lstsq(A, b)[0]
    pivoted, (truncated,) = solved(qr), qr.truncated([1e-12])
    assert pivoted.rank == truncated.rank == 4
    assert np.count_nonzero(pivoted.coefficients) == 4
    np.testing.assert_allclose(A @ pivoted.coefficients, A @ expected, atol=1e-13)
    np.testing.assert_allclose(truncated.coefficients, expected, atol=1e-13)


def test_first_columns_keep_the_coefficients_that_they_have_alone():
    A = RNG(0).normal(size=(50, 6))
    A[:, 1] = A[:, 4] + A[:, 5]  # which of them gets the coefficient is free
    b = 3 * A[:, 1] + A[:, 0]
    qr = factored(A, b)
    coefficients = solved(qr, first=[1]).coefficients
    alone = float(A[:, 1] @ b / (A[:, 1] @ A[:, 1]))
    assert coefficients[1] == pytest.approx(alone, rel=1e-8)
    np.testing.assert_allclose(A @ coefficients, b, atol=1e-12)


def test_ridge_is_an_augmented_system():
    A, b = RNG(0).normal(size=(12, 9)), RNG(1).normal(size=12)
    weights, penalties = RNG(2).uniform(1, 30, 9), [1e-8, 1e-3, 2.0]
    for qr in (factored(A, b), factored(A, b, keep=True)):
        for solution in qr.ridge(weights, penalties):
            augmented = np.vstack([A, math.sqrt(12 * solution.penalty) * np.diag(weights)])
            expected = np.linalg.lstsq(augmented, np.append(b, np.zeros(9)))[0]
            np.testing.assert_allclose(solution.coefficients, expected, rtol=1e-8, atol=1e-12)


def test_rows_that_are_left_out_one_by_one_are_groups_of_one():
    A, b = RNG(0).normal(size=(9, 6)), RNG(1).normal(size=(9, 2))
    penalties = np.array([1e-14, 1e-3, 2.0])
    errors = Spectrum(A, b).left_out(penalties)
    left_out = LeftOut(A[:, None], A[:, None], b[:, None], np.arange(9))
    qr = factored(A, b, keep=True)
    for error, solution in zip(errors, qr.ridge(np.ones(6), penalties), strict=True):
        assert left_out.choice(solution).square == pytest.approx((error**2).mean(), rel=1e-9)


# errors of what is left out


@given(
    seed=st.integers(0, 2**32 - 1),
    sizes=st.lists(st.integers(1, 4), min_size=8, max_size=10),
    columns=st.integers(1, 4),
    rows=st.integers(1, 3),
    right_sides=st.sampled_from([(), (1,), (3,)]),
    penalty=st.sampled_from([0.0, 1e-12, 1e-3, 0.5]),
    keep=st.booleans(),
)
def test_left_out_errors_are_those_of_refits(
    seed, sizes, columns, rows, right_sides, penalty, keep
):
    rng = RNG(seed)
    groups = sum(sizes)
    A = rng.normal(size=(groups, rows, columns))
    b = rng.normal(size=(groups, rows, *right_sides))
    weights = rng.uniform(1, 3, columns)
    folds = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))

    def fit(kept):
        qr = factored(A[kept], b[kept], keep)
        if not penalty:
            return solved(qr)
        return next(qr.ridge(weights, [penalty * groups * rows / qr.rows]))  # equal in all fits

    everything = fit(np.arange(groups))
    error = LeftOut(A, A, b, folds).choice(everything)
    squares = []
    for fold in range(len(sizes)):
        out = folds == fold
        squares.append(np.mean((b[out] - A[out] @ fit(~out).coefficients) ** 2))
    assert error.square == pytest.approx(np.mean(squares), rel=1e-7)
    typical, deviation = trimmed(np.array(squares))
    assert error.typical == pytest.approx(typical, rel=1e-7)
    assert error.deviation == pytest.approx(deviation, rel=1e-5)


def test_a_row_that_alone_determines_a_coefficient_has_an_infinite_error():
    A, b = RNG(0).normal(size=(20, 1, 3)), RNG(1).normal(size=(20, 1))
    A[:-1, :, 2] = 0
    error = LeftOut(A, A, b).choice(solved(factored(A, b)))
    assert error.square == math.inf
    assert math.isfinite(error.typical + error.deviation)


def test_the_largest_twentieth_is_trimmed():
    assert trimmed(np.array([1.0] * 19 + [np.inf])) == (1.0, 0.0)
    assert trimmed(np.array([1.0] * 18 + [np.inf] * 2)) == (np.inf, 0.0)


# the damped iteration


def rosenbrock(x):
    return torch.stack([10 * (x[1] - x[0] ** 2), 1 - x[0]])


def powell_singular(x):
    linear = x[0] + 10 * x[1], math.sqrt(5) * (x[2] - x[3])
    return torch.stack([*linear, (x[1] - 2 * x[2]) ** 2, math.sqrt(10) * (x[0] - x[3]) ** 2])


class Problem(Residual):
    """Residuals by a function of PyTorch."""

    def __init__(self, function):
        self.function = function

    def cost(self, x):
        return float(self.function(x).square().sum())

    def linearise(self, x):
        equations = NormalEquations(x)
        equations.add(torch.autograd.functional.jacobian(self.function, x), self.function(x))
        return equations


@pytest.mark.parametrize("factor", [1.0, 10.0])
@pytest.mark.parametrize(
    ("function", "start"), [(rosenbrock, [-1.2, 1.0]), (powell_singular, [3.0, -1.0, 0.0, 1.0])]
)
def test_classical_problems_are_solved_as_scipy_does(function, start, factor):
    start = factor * np.array(start)
    iteration = DampedIteration(Problem(function), torch.from_numpy(start))
    first = iteration.cost
    x = iteration.run(1000, exact=1e-30)
    peer = optimize.least_squares(
        lambda x: function(torch.from_numpy(x)).numpy(), start, method="lm", xtol=1e-15, ftol=1e-15
    )
    assert iteration.cost <= 2 * peer.cost * (1 + 1e-6) + 1e-20
    assert iteration.cost < first
    assert iteration.cost == Problem(function).cost(x)


def test_parameters_with_no_effect_stay_as_they_are():
    start = torch.tensor([2.0, 5.0]).double()
    iteration = DampedIteration(Problem(lambda x: x[:1] ** 2 - 1), start)
    assert iteration.run(50).tolist() == pytest.approx([1.0, 5.0])
    flat = DampedIteration(Problem(lambda x: 0 * x + 1), start)
    assert not flat.step()  # no damping lowers the cost


def test_trials_outside_of_the_domain_are_refused():
    """The full step from 3 leads below zero, where the logarithm is nan."""
    iteration = DampedIteration(Problem(torch.log), torch.tensor([3.0]).double(), damping=1e-9)
    assert iteration.run(50).item() == pytest.approx(1.0)


@pytest.mark.parametrize("machine_code", [False, True])
def test_normal_equations_are_those_of_all_rows(machine_code):
    J, r, x = (torch.from_numpy(RNG(0).normal(size=size)) for size in ((40, 6), 40, 6))
    equations = NormalEquations(torch.zeros(6).double(), large=6 if machine_code else 7)
    for _ in range(2):
        equations.clear()
        for rows in torch.arange(40).split(16):
            equations.add(J[rows], r[rows])
        equations.add_penalty(0.5, x)
    A, b = J.mT @ J + 0.5 * torch.eye(6), J.mT @ r + 0.5 * x
    expected = -torch.linalg.solve(A + 0.3 * torch.eye(6), b)
    torch.testing.assert_close(equations.solve(0.3), expected)
    torch.testing.assert_close(equations.gradient, b)
    assert equations.largest() == pytest.approx(float(A.max()))
    assert equations.solve(-2 * equations.largest()) is None


def test_too_many_parameters_for_a_matrix():
    with pytest.raises(InputError, match=r"up to 20,000 .* 20,001; use .* adam"):
        NormalEquations(torch.zeros(20_001, dtype=torch.float64), compiled=True)


def test_groups_of_a_negative_fold_are_never_left_out():
    rng = RNG(0)
    A, b = rng.normal(size=(20, 2, 3)), rng.normal(size=(20, 2))
    folds = np.where(np.arange(20) < 15, -1, 0)
    error = LeftOut(A, A, b, folds).choice(solved(factored(A, b)))
    without = solved(factored(A[:15], b[:15]))
    squares = ((b[15:] - A[15:] @ without.coefficients) ** 2).mean(1)
    assert error.square == pytest.approx(squares.mean(), rel=1e-9)
    assert error.deviation == pytest.approx(np.std(squares) / math.sqrt(5) / squares.mean())
