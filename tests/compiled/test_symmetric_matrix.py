"""Sums of J^T J, Cholesky factors and solutions in machine code against NumPy."""

import numpy as np
import pytest

from vpintegrator.compiled import SymmetricMatrix

SIZES = [1, 7, 24, 61, 97, 200, 301]  # of one tile, of one block, and of several
DIGITS = {np.float64: 1e-13, np.float32: 1e-4}


def problem(count, rows, dtype=np.float64):
    generator = np.random.default_rng(count)
    jacobian = generator.normal(size=(rows, count)).astype(dtype)
    return jacobian, generator.normal(size=rows).astype(dtype)


def summed(count, rows=None, dtype=np.float64, threads=1):
    """A matrix, with what it is made of."""
    jacobian, residuals = problem(count, rows or count + 350, dtype)
    matrix, gradient = SymmetricMatrix(count, dtype, threads), np.zeros(count, dtype)
    matrix.add(jacobian, residuals, gradient)
    return matrix, gradient, jacobian, residuals


@pytest.mark.parametrize("dtype", DIGITS)
@pytest.mark.parametrize("count", SIZES)
def test_products_and_solutions(count, dtype):
    matrix, gradient, jacobian, residuals = summed(count, dtype=dtype)
    expected = jacobian.T.astype(float) @ jacobian
    close = {"rtol": DIGITS[dtype], "atol": DIGITS[dtype] * np.abs(expected).max()}
    np.testing.assert_allclose(matrix.whole(), expected, **close)
    np.testing.assert_allclose(gradient, jacobian.T.astype(float) @ residuals, **close)
    assert not np.triu(matrix.array, 1).any()
    before = matrix.whole()
    for damping in (0.1, 30.0):  # the matrix stays, for another damping
        assert matrix.factor(damping)
        np.testing.assert_array_equal(matrix.whole(), before)
        solution = matrix.solve(gradient)
        damped = expected + damping * np.eye(count)
        np.testing.assert_allclose(damped @ solution, gradient, **close)


@pytest.mark.parametrize("dtype", DIGITS)
@pytest.mark.parametrize("count", SIZES)
def test_rows_side_by_side(count, dtype):
    """As compiled residuals give them: so many as a vector has lanes, in several calls."""
    lanes = int(SymmetricMatrix(1, dtype)._library.lanes())
    jacobian, residuals = problem(count, 40 * lanes, dtype)
    matrix, gradient = SymmetricMatrix(count, dtype), np.zeros(count, dtype)
    for part in (slice(0, 3), slice(3, 40)):
        groups = jacobian.reshape(40, lanes, count)[part].swapaxes(1, 2)
        matrix.add(groups, residuals.reshape(40, lanes)[part], gradient)
    other, same = SymmetricMatrix(count, dtype), np.zeros(count, dtype)
    other.add(jacobian, residuals, same)
    scale = np.abs(other.array).max()
    np.testing.assert_allclose(matrix.array, other.array, atol=DIGITS[dtype] * scale)
    np.testing.assert_allclose(gradient, same, atol=DIGITS[dtype] * scale)


def test_threads_change_nothing():
    found = []
    for threads in (1, 3):
        matrix, gradient, *_ = summed(400, threads=threads)
        assert matrix.factor(2.0)
        found.append((matrix.array, gradient, matrix.solve(gradient)))
    for one, three in zip(*found, strict=True):
        np.testing.assert_array_equal(one, three)


def test_no_factor():
    """Of matrices that are not positive definite, or not finite; the next damping may have one."""
    matrix, *_ = summed(150)
    before = matrix.whole()
    assert not any(map(matrix.factor, (-1e6, np.nan, np.inf)))
    np.testing.assert_array_equal(matrix.whole(), before)
    assert matrix.factor(1.0)
    matrix.array[140, 3] = np.nan
    assert not matrix.factor(1.0)
