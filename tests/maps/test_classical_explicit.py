"""Explicit Runge-Kutta methods: any tableau, checked."""

import math

import numpy as np
import pytest
import scipy.integrate

from tests.maps.order_conditions import first_failure
from tests.rollout.systems import initial, system
from vpintegrator.errors import InputError
from vpintegrator.maps import METHODS, ExplicitRungeKutta

EXPLICIT = [name for name, method in METHODS.items() if isinstance(method, ExplicitRungeKutta)]


def make(**change):
    arguments = {
        "name": "mine",
        "title": "Mine",
        "order": 2,
        "source": "here",
        "stages": ((1 / 2,),),
        "weights": (0.0, 1.0),
    }
    return ExplicitRungeKutta(**(arguments | change))


def scipy_method(solver, order):
    rows = tuple(tuple(row[:i]) for i, row in enumerate(solver.A[: solver.n_stages]) if i > 0)
    return make(order=order, stages=rows, weights=tuple(solver.B))


def test_rk4_on_a_linear_system_is_its_polynomial():
    s, h = system("harmonic-oscillator"), 0.4
    generator = h * np.array([[0.0, 1.0], [-1.0, 0.0]])
    matrix = sum(np.linalg.matrix_power(generator, k) / math.factorial(k) for k in range(5))
    z = np.array([[0.3, -0.8]])
    assert np.allclose(METHODS["rk4"].step(s, z, h), z @ matrix.T, atol=1e-15)


@pytest.mark.parametrize("solver", ["RK23", "RK45", "DOP853"])
def test_the_tableaus_of_scipy(solver):
    solver = getattr(scipy.integrate, solver)
    order = {"RK23": 3, "RK45": 5, "DOP853": 8}[solver.__name__]
    method = scipy_method(solver, order)
    s, z, h = system("rigid-body"), initial("rigid-body", 1), 0.3
    taken = solver(lambda _, y: s.vector_field(y), 0.0, z[0], h, first_step=h, rtol=10, atol=10)
    taken.step()
    assert taken.t == h
    assert np.allclose(method.step(s, z, h)[0], taken.y, rtol=0, atol=1e-15)


@pytest.mark.parametrize("name", EXPLICIT)
def test_the_order_of_each_named_tableau_is_no_more_than_it_says(name):
    method = METHODS[name]
    matrix = np.zeros((len(method.weights),) * 2)
    for i, row in enumerate(method.stages, start=1):
        matrix[i, :i] = row
    failure = first_failure(matrix, np.array(method.weights), method.order + 1)
    assert failure.tree.order == method.order + 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weights": (1.0,)}, "1 weights, but 2 stages"),
        ({"stages": ((1 / 2, 0.0),)}, "the row of stage 2 has 2 entries"),
        ({"stages": ((1 / 2,), (0.0,)), "weights": (0.0, 0.0, 1.0)}, "the row of stage 3 has 1"),
        ({"stages": ((math.nan,),)}, "not a finite number"),
        ({"stages": ("ab",)}, "rows of numbers"),
        ({"weights": (0.5, 0.6)}, "not consistent: its weights sum to 1.1, not 1"),
    ],
)
def test_a_wrong_tableau_is_told(change, message):
    with pytest.raises(InputError, match=message):
        make(**change)
