"""Models that move the time on by themselves."""

import numpy as np
import pytest
import torch

import vpintegrator as vp
from tests.rollout.systems import as_map, system
from vpintegrator.rollout.diagnostics import reversibility_defect, symplecticity_defect

STEP = 0.1


def built(name="auto", forced=None, **arguments):
    forced = forced or system("forced")
    given = {"functions": "polynomial", "degree": 3, "depth": 2, "initial_scale": 0.5} | arguments
    model = vp.models.build(forced, name, given)
    model.set_advance(STEP)
    model.origin = vp.models.Origin(forced, STEP)
    return model


def states():
    return system("forced").sample_initial(5, np.random.default_rng(0))


@pytest.mark.parametrize("name", ["spff", "vpff"])
@pytest.mark.parametrize("own", [{}, {"functions": "neurons", "width": 3}])
def test_the_time_goes_on_to_the_last_digit(name, own):
    model = built(name, **{"degree": 3, **own})
    z = torch.from_numpy(states())[:, None]
    after = model(z)
    assert torch.equal(after[..., -1], z[..., -1] + STEP)
    assert not torch.equal(after[..., 0], z[..., 0])
    np.testing.assert_allclose(model.inverse(after).detach(), z, atol=1e-12)


def test_a_hamiltonian_that_depends_on_time_has_a_symplectic_map():
    model = built()
    assert model.name == "spff" and model.structure.is_symplectic and model.explicit_time
    flow = as_map(model, system("forced"))
    windows = states()[:, None]
    assert symplecticity_defect(flow, windows) < 1e-13
    derivative = flow.derivative(windows)
    np.testing.assert_allclose(np.linalg.det(derivative), 1, rtol=1e-12)
    np.testing.assert_array_equal(derivative[:, -1], np.tile([0, 0, 0, 0, 1], (5, 1)))
    assert np.abs(derivative[:, :4, -1]).max() > 1e-3  # all else depends on the time


@pytest.mark.parametrize("name", ["spff", "vpff"])
def test_reversing_time_reverses_the_clock(name):
    text = system("forced").text + '[[reversing_symmetry]]\np = "-p[i]"\n'
    text = text.replace("sin(t)", "cos(t)").replace("sin(2*t)", "cos(2*t)")
    forced = vp.load_system(text)
    flow = as_map(model := built(name, forced), forced)
    assert len(model.reversing_symmetries) == 1
    assert reversibility_defect(flow, states()[:, None], flow.system.reversing_symmetries) < 1e-13


def test_periodic_in_time():
    model = built()
    z = torch.from_numpy(states())[:, None]
    later = z.clone()
    later[..., -1] += 6 * np.pi
    found, image = model(z), model(later)
    np.testing.assert_allclose(image[..., :-1].detach(), found[..., :-1].detach(), atol=1e-13)


@pytest.mark.thorough
@pytest.mark.parametrize("compiled", [False, True])
def test_times_of_long_rollouts(compiled):
    model = built(initial_scale=0.02)
    z, steps = states(), 2000
    found = vp.rollout.rollout(model, z, steps, compiled=compiled)
    times = z[:, -1:] + STEP * np.arange(steps + 1)
    assert np.abs(found[..., -1] - times).max() <= np.spacing(times.max())
    # in parts of any lengths, bit by bit
    again = np.concatenate([*model.advance(z[:, None], 1160, chunk=70)], axis=1)
    if not compiled:
        np.testing.assert_array_equal(again, found[:, 1:1161])


@pytest.mark.thorough
def test_late_is_as_accurate_as_early():
    model, z = built(initial_scale=0.02), states()
    late = z + np.array([0, 0, 0, 0, 2e5 * np.pi])
    early, later = (vp.rollout.rollout(model, start, 800) for start in (z, late))
    np.testing.assert_allclose(later[..., :4], early[..., :4], atol=1e-7)


def test_functions_of_time_come_with_their_derivatives():
    chirped = vp.load_system("chirped-pendulum")
    phase = "(z[2] - 0.0025*z[2]**2)"
    assert {f"cos{phase}", f"sin{phase}"} < set(chirped.hamiltonian_functions)
    model = vp.models.build(chirped, arguments={"functions": "system", "degree": 2})
    assert model.name == "spff" and model.structure.is_symplectic and model.explicit_time
    z = torch.from_numpy(chirped.sample_initial(3, np.random.default_rng(0)))[:, None]
    np.testing.assert_allclose(model.inverse(model(z)).detach(), z, atol=1e-13)
