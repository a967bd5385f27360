"""Explicit Runge-Kutta methods: any tableau, checked."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import scipy.integrate

from tests.rollout.systems import initial, system
from vpintegrator.errors import InputError
from vpintegrator.maps import METHODS, ExplicitRungeKutta

EXPLICIT = [name for name, method in METHODS.items() if isinstance(method, ExplicitRungeKutta)]


def test_rk4_on_a_linear_system_is_its_polynomial():
    s, h = system("harmonic-oscillator"), 0.4
    generator = h * np.array([[0.0, 1.0], [-1.0, 0.0]])
    matrix = sum(np.linalg.matrix_power(generator, k) / math.factorial(k) for k in range(5))
    z = np.array([[0.3, -0.8]])
    assert np.allclose(METHODS["rk4"].step(s, z, h), z @ matrix.T, atol=1e-15)


@pytest.mark.parametrize("solver", ["RK23", "RK45", "DOP853"])
def test_the_tableaus_of_scipy(solver):
    solver = getattr(scipy.integrate, solver)
    rows = tuple(tuple(row[:i]) for i, row in enumerate(solver.A[: solver.n_stages]) if i > 0)
    method = replace(METHODS["rk4"], stages=rows, weights=tuple(solver.B))
    s, z, h = system("rigid-body"), initial("rigid-body", 1), 0.3
    taken = solver(lambda _, y: s.vector_field(y), 0.0, z[0], h, first_step=h, rtol=10, atol=10)
    taken.step()
    assert taken.t == h
    assert np.allclose(method.step(s, z, h)[0], taken.y, rtol=0, atol=1e-15)


# rooted trees: the trees that hang from the root


@cache
def trees(order):
    """All trees with that many vertices."""

    def forests(choice, vertices):
        if vertices == 0:
            yield ()
        for i, tree in enumerate(choice):
            if size(tree) <= vertices:
                for rest in forests(choice[i:], vertices - size(tree)):
                    yield (tree, *rest)

    return [*forests([tree for k in range(1, order) for tree in trees(k)], order - 1)]


def size(tree):
    return 1 + sum(map(size, tree))


def density(tree):
    return size(tree) * math.prod(map(density, tree))


def stage_weights(tree, matrix):
    """The product over the branches of sum_j a_ij (weights of the branch)_j."""
    return math.prod((matrix @ stage_weights(b, matrix) for b in tree), start=np.ones(len(matrix)))


@pytest.mark.parametrize("name", EXPLICIT)
def test_the_order_of_each_named_tableau_is_what_it_says(name):
    """By Butcher's conditions: sum_i b_i phi_i(t) = 1/gamma(t) for every tree t.

    Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I, theorem II.2.13.
    """
    method = METHODS[name]
    weights, matrix = np.array(method.weights), np.zeros((len(method.weights),) * 2)
    for i, row in enumerate(method.stages, start=1):
        matrix[i, :i] = row

    def holds(tree):
        error = abs(weights @ stage_weights(tree, matrix) - 1 / density(tree))
        terms = np.abs(weights) @ stage_weights(tree, np.abs(matrix))
        return error <= 64 * np.finfo(float).eps * max(terms, 1 / density(tree))

    assert all(holds(tree) for order in range(1, method.order + 1) for tree in trees(order))
    assert not all(map(holds, trees(method.order + 1)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weights": (1.0,)}, "of 1 weights"),
        ({"stages": ((1 / 2, 0.0),)}, r"not of \[2\]"),
        ({"stages": ((math.nan,),)}, "not a finite number"),
        ({"stages": ("ab",)}, "rows of numbers"),
        ({"weights": (0.5, 0.6)}, "not consistent: its weights sum to 1.1, not 1"),
    ],
)
def test_a_wrong_tableau_is_told(change, message):
    with pytest.raises(InputError, match=message):
        replace(METHODS["explicit-midpoint"], **change)
