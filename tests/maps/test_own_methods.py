"""A method of one's own: one formula, which PyTorch differentiates."""

from dataclasses import dataclass

import numpy as np
import pytest

import vpintegrator as vp
from tests.rollout.systems import initial, system
from vpintegrator.errors import InputError
from vpintegrator.maps import METHODS, OneStepMethod

PLACES = {"boris": "charged-particle", "stoermer-verlet": "coupled-oscillators"}
ONE_STEP = [name for name, method in METHODS.items() if isinstance(method, OneStepMethod)]


@dataclass(frozen=True, kw_only=True)
class Taylor(OneStepMethod):
    """The Taylor method of order two, by the Jacobian matrix."""

    name: str = "taylor"
    title: str = "Taylor"
    order: int = 2
    source: str = "a textbook"

    def increment(self, system, state, step, parameters=()):
        f = system.vector_field_by_component(state, parameters)
        J = system.jacobian_by_component(state, parameters)
        return step * f + step**2 / 2 * (J * f).sum(1)


@pytest.mark.parametrize("name", ONE_STEP)
def test_the_default_is_the_derivative_of_the_formulas(name):
    which = PLACES.get(name, "rigid-body")
    method, z = METHODS[name], initial(which, 4)
    found = OneStepMethod.derivative(method, system(which), z, 0.2)
    np.testing.assert_allclose(found, method.derivative(system(which), z, 0.2), rtol=0, atol=1e-12)


@pytest.mark.parametrize("substeps", [1, 3])
def test_a_method_with_one_formula(substeps):
    map = vp.classical(Taylor(), system("pendulum"), 0.2, substeps=substeps)
    z = initial("pendulum", 5)[:, None]
    z[3] = np.nan
    eps = 1e-5
    columns = [
        (map.map(z + shift) - map.map(z - shift))[:, 0] / (2 * eps) for shift in eps * np.eye(2)
    ]
    found = map.derivative(z)
    np.testing.assert_allclose(found, np.stack(columns, -1), rtol=0, atol=1e-9)
    assert np.isnan(found[3]).all() and np.isfinite(np.delete(found, 3, 0)).all()
    report = vp.compare(None, [Taylor(), "heun"], system="pendulum", step=0.1, steps=10)
    assert report.runs["taylor"].volume["step"].largest > 1e-6


def test_parameters_one_by_one():
    s = vp.load_system("pendulum")
    map = vp.classical(Taylor(), s, 0.2)
    z = initial("pendulum", 2)[:, None]
    both = map.derivative(z, {"g": np.array([1.0, 2.0])})
    for row, g in enumerate((1.0, 2.0)):
        np.testing.assert_allclose(both[row], map.derivative(z, {"g": g})[row], atol=1e-14)
    assert np.abs(both[0] - map.derivative(z, {"g": 2.0})[0]).max() > 1e-3


def test_functions_of_numpy_are_refused():
    own = vp.System.from_function(lambda t, y: -y if y[0] > 0 else -2 * y, dim=2)
    with pytest.raises(InputError, match="a gradient needs formulas"):
        vp.classical(Taylor(), own, 0.1).derivative(np.ones((1, 1, 2)))
