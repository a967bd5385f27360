"""Numbers of things."""

import warnings

import numpy as np
import pytest

import vpintegrator as vp
from vpintegrator.arguments import whole_number
from vpintegrator.errors import InputError


@pytest.mark.parametrize("value", [3, 3.0, np.int32(3), np.float64(3)])
def test_numbers_of_things(value):
    found = whole_number("steps", value, 1)
    assert (found, type(found)) == (3, int)


@pytest.mark.parametrize("value", [0, 2.5, True, "3", None, np.nan])
def test_what_is_no_number_of_things(value):
    with pytest.raises(InputError, match=r"^steps = .* must be a whole number, 1 to "):
        whole_number("steps", value, 1)


PENDULUM = vp.load_system("pendulum")
RK4 = vp.classical("rk4", PENDULUM, 0.1)
DOP853 = vp.classical("dop853", PENDULUM, 0.1)
OWN = vp.Map.from_function(lambda z: 2 * z, 0.1, 2)
DOORS = {
    "initial of solve": lambda z: vp.solve(PENDULUM, z, [0.0, 0.1])[:, 1],
    "map": lambda z: RK4.map(z[:, None])[:, 0],
    "own map": lambda z: OWN.map(z[:, None])[:, 0],
    "states of an own map": lambda z: next(OWN.states(z[:, None])),
    "adaptive steps": lambda z: next(DOP853.advance(z[:, None], 1)),
    "advance": lambda z: next(RK4.advance(z[:, None], 1)),
    "vector field": PENDULUM.vector_field,
    "invariant": PENDULUM.invariants["energy"],
    "jacobian": PENDULUM.jacobian,
    "determinant": lambda z: vp.rollout.diagnostics.log_determinant(RK4, z[:, None]),
}


@pytest.mark.parametrize("name", DOORS)
def test_no_door_of_arrays_drops_a_mask_or_imaginary_parts(name):
    states = np.array([[0.5, 0.2], [999.0, 0.1]])
    masked = np.ma.array(states, mask=[[False, False], [True, False]])
    try:
        result = np.asarray(DOORS[name](masked))
    except InputError as error:
        assert "finite" in str(error) or "observed" in str(error)
    else:
        assert np.isfinite(result[0]).all() and not np.isfinite(result[1]).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            result = np.asarray(DOORS[name](states + 1j))
        except InputError as error:
            assert "complex" in str(error) or "real numbers" in str(error)
        else:
            assert np.iscomplexobj(result)
