"""Orders, costs, and counted evaluations."""

import numpy as np
import pytest

from tests.rollout.diagnostics.linear_models import linear_model
from tests.rollout.systems import as_map, initial, system
from vpintegrator.dynamics import load_system
from vpintegrator.rollout import METHODS
from vpintegrator.rollout.diagnostics import count_evaluations, work_precision


def order_of_accuracy(name, s, initial, time, step, halvings):
    steps = step / 2.0 ** np.arange(halvings + 1)
    return work_precision([name], initial, system=s, time=time, steps=steps)[name]


def observed(found):
    """Orders from neighbouring steps."""
    return np.log2(found.error[:-1] / found.error[1:])


@pytest.mark.parametrize(
    "name", ["explicit-euler", "heun", "rk4", "stoermer-verlet", "gauss-legendre-4"]
)
def test_order_of_accuracy(name):
    s, z = system("pendulum"), initial("pendulum", 4)
    first = 0.02 if name == "explicit-euler" else 0.2
    found = order_of_accuracy(name, s, z, 2.0, first, 3)
    assert found.order == pytest.approx(METHODS[name].order, abs=0.1)
    assert np.allclose(observed(found), METHODS[name].order, atol=0.25)
    assert np.allclose(found.step, first / 2.0 ** np.arange(4))


def test_order_is_not_fitted_to_rounding():
    # exact to rounding from the first step on
    zero = load_system('state = ["x"]\n[vector_field]\nx = "1"\n')
    found = order_of_accuracy("rk4", zero, [[0.5]], 2.0, 0.5, 4)
    assert found.order is None
    found = order_of_accuracy(
        "gauss-legendre-6", system("pendulum"), initial("pendulum", 3), 2.0, 0.4, 6
    )
    assert observed(found)[-1] < 3  # which rounding has spoilt
    assert found.order == pytest.approx(6, abs=0.1)


def test_counted_evaluations():
    s, z = system("pendulum"), initial("pendulum", 7)
    expected = {"explicit-euler": 1, "heun": 2, "rk4": 4}
    for name, count in expected.items():
        assert count_evaluations(as_map(name, s, 0.1), z, 5) == count
    assert 2 <= count_evaluations(as_map("implicit-midpoint", s, 0.1), z, 5) <= 10
    z[0] = np.nan
    assert count_evaluations(as_map("rk4", s, 0.1), z) == 4
    assert count_evaluations(as_map("rk4", s, 0.1), z[:1]) is None
    assert count_evaluations(as_map(linear_model(np.eye(2), 2, 0.1)), z) is None


def test_adaptive_methods_have_one_point():
    s, z = system("pendulum"), initial("pendulum", 3)
    flow = as_map("dop853", s, 0.2)
    found = work_precision([flow, "strang-splitting", "rk4"], z, system=s, steps=[0.4, 0.2])
    assert found["dop853"].error.shape == (1,)
    assert found["dop853"].order is None
    assert found["dop853"].evaluations[0] > 5
    # a splitting evaluates the parts of the field, in functions of its own
    assert found["strang-splitting"].error.shape == found["rk4"].error.shape == (2,)
