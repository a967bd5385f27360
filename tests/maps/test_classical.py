"""What every classical method promises: order, structure, derivative, batches, divergence."""

import math
from functools import cache

import numpy as np
import pytest

from tests.rollout.systems import BLOW_UP, DOMAIN, as_map, initial, system
from vpintegrator.compiled import integrate
from vpintegrator.dynamics import load_system, solve
from vpintegrator.dynamics.structure import reversibility_defect
from vpintegrator.errors import InputError
from vpintegrator.maps import METHODS, ExplicitRungeKutta, OneStepMethod

# of files and command lines there are: a name once given stays
ONE_STEP = [name for name, method in METHODS.items() if isinstance(method, OneStepMethod)]
GENERAL = ("rigid-body", "coupled-oscillators", "charged-particle")
HAMILTONIAN = ("pendulum", "coupled-oscillators", "harmonic-oscillator")
PARTICLES = ("charged-particle", "particle-in-a-trap", "particle-in-space")
SYSTEMS = dict.fromkeys(ONE_STEP, GENERAL) | {
    "stoermer-verlet": HAMILTONIAN,
    "boris": PARTICLES,
    "strang-splitting": (*GENERAL, "abc-flow"),
    "implicit-midpoint": (*GENERAL, "pendulum", "self-dependent"),
}
FORCED = dict.fromkeys(ONE_STEP, ("forced", "particle-in-a-wave")) | {
    "stoermer-verlet": ("forced",),
    "boris": ("particle-in-a-wave",),
    "implicit-midpoint": ("forced", "swept", "forced-self-dependent"),
    "gauss-legendre-6": ("forced", "swept"),
    "rk4": ("forced", "swept"),
}
SYSTEMS = {name: (*SYSTEMS[name], *FORCED[name]) for name in ONE_STEP}
CASES = [(name, which) for name in ONE_STEP for which in SYSTEMS[name]]
TIME = 2.0


def steps_for(order):
    """Two numbers of steps in two time units.

    So many that the leading term rules and so few that rounding does not.
    """
    coarse = max(32, 256 >> order) if order < 6 else 8
    return coarse, 2 * coarse if order < 8 else 3 * coarse // 2


@cache
def exact(which):
    times = np.array([0.0, TIME / 2, TIME])
    return solve(system(which), initial(which), times, rtol=2.3e-14, atol=1e-15)[:, -1]


@pytest.mark.parametrize(("name", "which"), CASES)
def test_order_of_convergence(name, which):
    method = METHODS[name]
    coarse, fine = steps_for(method.order)

    def error(steps):
        end = integrate(system(which), method, initial(which), TIME / steps, steps)[:, -1]
        # in the mean over states: a single one may pass through a zero of the leading term
        return np.sqrt(np.mean((end - exact(which)) ** 2))

    measured = math.log(error(coarse) / error(fine)) / math.log(fine / coarse)
    # of order 8 there is little room between the leading term and rounding
    assert measured == pytest.approx(method.order, abs=0.1 if method.order < 8 else 0.3)


@pytest.mark.parametrize(("name", "which"), CASES)
def test_derivative_of_the_step_against_differences(name, which):
    method, s = METHODS[name], system(which)
    z, h, eps = initial(which), 0.3, 1e-4
    # fourth-order differences: error about eps^4 + rounding/eps

    def central(e):
        return method.step(s, z + e, h) - method.step(s, z - e, h)

    columns = [(8 * central(e) - central(2 * e)) / (12 * eps) for e in eps * np.eye(s.dim)]
    assert np.allclose(method.derivative(s, z, h), np.stack(columns, -1), atol=1e-10)


@pytest.mark.parametrize(("name", "which"), CASES)
def test_structure_holds_and_is_not_understated(name, which):
    method, s = METHODS[name], system(which)
    structure = method.structure(s)
    z = initial(which, 8)

    def volume_defect(h):
        return np.abs(np.linalg.det(method.derivative(s, z, h)) - 1).max()

    def symplecticity_defect(h):
        half = s.phase_dim // 2
        omega = np.kron([[0, 1], [-1, 0]], np.eye(half))
        derivative = method.derivative(s, z, h)[:, : 2 * half, : 2 * half]  # at one time
        return np.abs(derivative.swapaxes(1, 2) @ omega @ derivative - omega).max()

    def symmetry_defect(h):
        return np.abs(method.step(s, method.step(s, z, h), -h) - z).max()

    accurate = isinstance(method, ExplicitRungeKutta) and method.order == 8
    long, short = (2.0, 1.5) if accurate else (1.0, 0.3)
    assert s.divergence_free
    for kept, defect in (
        (structure.keeps_volume, volume_defect),
        (structure.is_symplectic, symplecticity_defect),
    ):
        if kept:
            assert defect(0.3) < 1e-13
        elif defect is volume_defect or s.is_hamiltonian:
            assert defect(long) > 1e-9
    if method.symmetric:
        assert symmetry_defect(0.3) < 1e-13
        flow = as_map(method, s, 0.3)
        assert (reversibility_defect(flow, z, structure.reversing_symmetries) or 0) < 2e-13
    else:
        assert symmetry_defect(short) > 1e-8


EVERY, VOLUME = ("symplectic", "reversible"), ("volume-preserving", "reversible")
PLANE = 'state = ["x", "y"]\n[vector_field]\nx = "sin(x)*y"\ny = "-cos(x)*y**2/2"'
DAMPED = 'state = ["x", "y"]\n[vector_field]\nx = "y"\ny = "-x - y"'


@pytest.mark.parametrize(
    ("name", "which", "words"),
    [
        ("implicit-midpoint", "coupled-oscillators", EVERY),
        ("implicit-midpoint", "rigid-body", EVERY[1:]),
        ("strang-splitting", "coupled-oscillators", EVERY),
        ("strang-splitting", "rigid-body", VOLUME),
        ("coordinate-splitting", "rigid-body", VOLUME[:1]),
        ("boris", "charged-particle", VOLUME),
        ("rk4", "pendulum", ()),
        ("rk45", "pendulum", ()),
        # in the plane a divergence-free field is Hamiltonian, however it is given
        ("implicit-midpoint", PLANE, EVERY[:1]),
        # nor does time change that
        ("stoermer-verlet", "forced", EVERY[:1]),
        ("implicit-midpoint", "swept", EVERY[:1]),
        ("strang-splitting", "particle-in-a-wave", VOLUME[:1]),
        ("implicit-midpoint", DAMPED, ()),
    ],
)
def test_structure_depends_on_the_system(name, which, words):
    s = load_system(which) if "=" in which else system(which)
    found = METHODS[name].structure(s).words
    assert found[: max(len(words), 1)] == words


@pytest.mark.parametrize(("name", "which"), [(name, SYSTEMS[name][0]) for name in ONE_STEP])
def test_a_trajectory_equals_itself_in_a_batch_bit_for_bit(name, which):
    s, z = system(which), initial(which, 7)
    together = integrate(s, name, z, 0.3, 40)
    alone = np.concatenate([integrate(s, name, row[None], 0.3, 40) for row in z])
    assert np.array_equal(together, alone)


@pytest.mark.parametrize("name", ["rk4", "boris", "strang-splitting", "rk45"])
def test_back_in_time(name):
    s, z = system("charged-particle"), initial("charged-particle")
    there = integrate(s, name, z, 0.01, 100)[:, -1]
    assert np.allclose(integrate(s, name, there, -0.01, 100)[:, -1], z, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "which", "number"),
    [
        ("rk4", "rigid-body", 4),
        ("coordinate-splitting", "rigid-body", 1),
        ("strang-splitting", "rigid-body", 5 / 3),
        ("yoshida-4", "coupled-oscillators", 7 / 2),
        ("blanes-moan-4", "pendulum", 13 / 2),
        ("boris", "charged-particle", 1),
        ("stoermer-verlet", "forced", 3 / 2),
        ("yoshida-4", "forced", 9 / 2),
        ("implicit-midpoint", "rigid-body", None),
        ("rk45", "rigid-body", None),
    ],
)
def test_evaluations_of_the_vector_field(name, which, number):
    assert METHODS[name].evaluations(system(which)) == number


@pytest.mark.parametrize(
    ("name", "text", "states", "step", "failures"),
    [
        ("explicit-euler", BLOW_UP, [[1.0, 1.0], [-1.0, 1.0], [0.9, 0.5]], 0.2, 2),
        ("implicit-midpoint", BLOW_UP, [[1.0, 1.0], [-1.0, 1.0], [0.9, 0.5]], 0.2, 2),
        # y = z + h/2 y^2 has no real solution for h z > 1/2
        ("implicit-midpoint", BLOW_UP, [[6.0, 1.0], [-1.0, 1.0]], 0.1, 1),
        # out of the domain of the equations
        ("rk4", DOMAIN, [[0.0, 0.55], [0.0, 100.0]], 0.1, 1),
        ("implicit-midpoint", DOMAIN, [[0.0, 0.55], [0.0, 100.0]], 0.1, 1),
    ],
)
def test_a_failure_is_nan_from_there_on_and_leaves_the_others_alone(
    name, text, states, step, failures
):
    s = load_system(text)
    found = integrate(s, name, states, step, 100)
    bad = np.isnan(found).all(axis=-1)
    assert bad[0].any() and bad[:, -1].sum() == failures
    assert (np.diff(bad.astype(int)) >= 0).all()  # once NaN, always NaN
    assert np.isfinite(found[~bad]).all()
    for number, state in enumerate(states):
        alone = integrate(s, name, [state], step, 100)[0]
        assert np.array_equal(found[number], alone, equal_nan=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "implicit-midpiont"}, "did you mean 'implicit-midpoint'"),
        ({"method": "xyz"}, "there are explicit-euler"),
        ({"initial": [[1.0, 2.0]]}, r"\(trajectory, 3\)"),
        ({"initial": [[1.0, 2.0, math.nan]]}, "not finite"),
        ({"step": 0.0}, "step = 0"),
        ({"steps": -1}, "steps = -1"),
    ],
)
def test_wrong_arguments(change, message):
    arguments = {"method": "rk4", "initial": initial("rigid-body"), "step": 0.1, "steps": 3}
    with pytest.raises(InputError, match=message):
        integrate(system("rigid-body"), **arguments | change)
