"""Orders, costs, and counted evaluations."""

import numpy as np
import pytest

from tests.rollout.diagnostics.linear_models import linear_model, rotation
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
        found = count_evaluations(as_map(name, s, 0.1), z, 5)
        assert (found.vector_field, found.jacobian) == (count, 0)
    midpoint = count_evaluations(as_map("implicit-midpoint", s, 0.1), z, 5)
    assert 2 <= midpoint.vector_field <= 10
    assert 1 <= midpoint.jacobian <= 3
    z[0] = np.nan
    assert count_evaluations(as_map("rk4", s, 0.1), z).vector_field == 4
    assert count_evaluations(as_map("rk4", s, 0.1), z[:1]) is None
    assert count_evaluations(as_map(linear_model(np.eye(2), 2, 0.1)), z) is None


def test_work_precision():
    s, z, h = system("harmonic-oscillator"), initial("harmonic-oscillator", 5), 0.2
    model = linear_model(rotation(h) * 1.001, 2, h)
    seen = []
    found = work_precision(
        {"euler": "explicit-euler", "rk4": "rk4", "net": model},
        z,
        system=s,
        time=2.0,
        steps=[0.05, 0.2, 0.1],
        progress=lambda *call: seen.append(call),
    )
    assert list(found) == ["euler", "rk4", "net"]
    assert np.array_equal(found["rk4"].step, [0.2, 0.1, 0.05])
    assert np.allclose(found["rk4"].evaluations, 4 / found["rk4"].step)
    assert np.array_equal(found["rk4"].jacobian_evaluations, [0, 0, 0])
    assert found["rk4"].order == pytest.approx(4, abs=0.1)
    assert (np.diff(found["rk4"].error) < 0).all()
    assert (found["rk4"].seconds > 0).all()
    net = found["net"]
    assert np.array_equal(net.step, [h])
    # ten rotations too large by a thousandth each
    size = np.sqrt(np.mean(np.sum(z**2, axis=1)))
    assert net.error[0] == pytest.approx((1.001**10 - 1) * size, rel=1e-9)
    assert np.isnan(net.evaluations[0])
    assert net.order is None
    assert seen[:3] == [("euler", k, 3) for k in (1, 2, 3)]


def test_adaptive_methods_have_one_point():
    s, z = system("pendulum"), initial("pendulum", 3)
    flow = as_map("dop853", s, 0.2)
    found = work_precision([flow, "strang-splitting", "rk4"], z, system=s, steps=[0.4, 0.2])
    assert found["dop853"].error.shape == (1,)
    assert found["dop853"].order is None
    assert found["dop853"].evaluations[0] > 5
    # a splitting evaluates the parts of the field, in functions of its own
    assert found["strang-splitting"].error.shape == found["rk4"].error.shape == (2,)
