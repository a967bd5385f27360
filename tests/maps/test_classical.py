"""What every classical method promises: order, structure, derivative, batches, divergence."""

import math

import numpy as np
import pytest

from tests.rollout.systems import BLOW_UP, DOMAIN, as_map, initial, system
from vpintegrator.compiled import integrate
from vpintegrator.dynamics import load_system, solve
from vpintegrator.dynamics.structure import reversibility_defect
from vpintegrator.errors import InputError
from vpintegrator.maps import METHODS, ExplicitRungeKutta, OneStepMethod, find_method

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


@pytest.fixture(scope="module")
def exact():
    found = {}

    def solution(which):
        if which not in found:
            times = np.array([0.0, TIME / 2, TIME])
            s, z = system(which), initial(which)
            found[which] = solve(s, z, times, rtol=2.3e-14, atol=1e-15)[:, -1]
        return found[which]

    return solution


def canonical(dim):
    half = dim // 2
    zero, one = np.zeros((half, half)), np.eye(half)
    return np.block([[zero, one], [-one, zero]])


@pytest.mark.parametrize(("name", "which"), CASES)
def test_order_of_convergence(name, which, exact):
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
    columns = [
        (
            8 * (method.step(s, z + eps * e, h) - method.step(s, z - eps * e, h))
            - (method.step(s, z + 2 * eps * e, h) - method.step(s, z - 2 * eps * e, h))
        )
        / (12 * eps)
        for e in np.eye(s.dim)
    ]
    assert np.allclose(method.derivative(s, z, h), np.stack(columns, -1), atol=1e-10)


@pytest.mark.parametrize(("name", "which"), CASES)
def test_structure_holds_and_is_not_understated(name, which):
    method, s = METHODS[name], system(which)
    structure = method.structure(s)
    z = initial(which, 8)

    def volume_defect(h):
        return np.abs(np.linalg.det(method.derivative(s, z, h)) - 1).max()

    def symplecticity_defect(h):
        derivative, omega = method.derivative(s, z, h), canonical(s.phase_dim)
        derivative = derivative[:, : s.phase_dim, : s.phase_dim]  # at one time
        return np.abs(derivative.swapaxes(1, 2) @ omega @ derivative - omega).max()

    def symmetry_defect(h):
        return np.abs(method.step(s, method.step(s, z, h), -h) - z).max()

    accurate = isinstance(method, ExplicitRungeKutta) and method.order == 8
    long, short = (2.0, 1.5) if accurate else (1.0, 0.3)
    assert s.divergence_free
    if structure.keeps_volume:
        assert volume_defect(0.3) < 1e-13
    else:
        assert volume_defect(long) > 1e-9
    if structure.is_symplectic:
        assert symplecticity_defect(0.3) < 1e-13
    elif s.is_hamiltonian:
        assert symplecticity_defect(long) > 1e-9
    if method.symmetric:
        assert symmetry_defect(0.3) < 1e-13
        flow = as_map(method, s, 0.3)
        assert (reversibility_defect(flow, z, structure.reversing_symmetries) or 0) < 2e-13
    else:
        assert symmetry_defect(short) > 1e-8


def test_structure_depends_on_the_system():
    def structure(name, which):
        return METHODS[name].structure(system(which)).words

    every, volume = ("symplectic", "reversible"), ("volume-preserving", "reversible")
    assert structure("implicit-midpoint", "coupled-oscillators") == every
    assert structure("implicit-midpoint", "rigid-body") == ("reversible",)
    assert structure("strang-splitting", "coupled-oscillators") == every
    assert structure("strang-splitting", "rigid-body") == volume
    assert structure("coordinate-splitting", "rigid-body") == ("volume-preserving",)
    assert structure("boris", "charged-particle") == volume
    assert structure("rk4", "pendulum") == structure("rk45", "pendulum") == ()
    # in the plane a divergence-free field is Hamiltonian, however it is given
    plane = load_system('state = ["x", "y"]\n[vector_field]\nx = "sin(x)*y"\ny = "-cos(x)*y**2/2"')
    assert structure("implicit-midpoint", "pendulum") == every
    assert METHODS["implicit-midpoint"].structure(plane).is_symplectic
    # nor does time change that
    assert structure("stoermer-verlet", "forced")[0] == "symplectic"
    assert structure("implicit-midpoint", "swept")[0] == "symplectic"
    assert structure("strang-splitting", "particle-in-a-wave")[0] == "volume-preserving"
    damped = load_system('state = ["x", "y"]\n[vector_field]\nx = "y"\ny = "-x - y"')
    assert METHODS["implicit-midpoint"].structure(damped).words == ()


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
        ("strang-splitting", "coupled-oscillators", 3 / 2),
        ("stoermer-verlet", "coupled-oscillators", 3 / 2),
        ("yoshida-4", "coupled-oscillators", 7 / 2),
        ("blanes-moan-4", "pendulum", 13 / 2),
        ("boris", "charged-particle", 1),
        ("stoermer-verlet", "forced", 3 / 2),
        ("strang-splitting", "forced", 3 / 2),
        ("yoshida-4", "forced", 9 / 2),
        ("implicit-midpoint", "rigid-body", None),
        ("rk45", "rigid-body", None),
    ],
)
def test_evaluations_of_the_vector_field(name, which, number):
    assert METHODS[name].evaluations(system(which)) == number


@pytest.mark.parametrize("name", ["explicit-euler", "implicit-midpoint"])
def test_divergence_is_nan_from_there_on_and_leaves_the_others_alone(name):
    s = load_system(BLOW_UP)
    z = [[1.0, 1.0], [-1.0, 1.0], [0.9, 0.5]]
    states = integrate(s, name, z, 0.2, 100)
    bad = np.isnan(states).all(axis=-1)
    assert not np.isinf(states).any()
    assert bad[0].any()
    assert (np.diff(bad.astype(int)) >= 0).all()  # once NaN, always NaN
    assert not np.isnan(states).any(axis=-1)[~bad].any()
    for number in (0, 1, 2):
        alone = integrate(s, name, z[number : number + 1], 0.2, 100)[0]
        assert np.array_equal(states[number], alone, equal_nan=True)


@pytest.mark.parametrize("name", ["rk4", "implicit-midpoint"])
def test_leaving_the_domain_of_the_equations_is_nan(name):
    states = integrate(load_system(DOMAIN), name, [[0.0, 0.55], [0.0, 100.0]], 0.1, 20)
    assert np.isnan(states[0, -1]).all()
    assert np.isfinite(states[1]).all()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("implicit-midpiont", "did you mean 'implicit-midpoint'"),
        ("xyz", "there are explicit-euler"),
    ],
)
def test_unknown_method(name, message):
    with pytest.raises(InputError, match=message):
        find_method(name)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"initial": [[1.0, 2.0]]}, r"\(trajectory, 3\)"),
        ({"initial": [[1.0, 2.0, math.nan]]}, "not finite"),
        ({"step": 0.0}, "step = 0"),
        ({"steps": -1}, "steps = -1"),
    ],
)
def test_wrong_arguments(change, message):
    arguments = {"initial": initial("rigid-body"), "step": 0.1, "steps": 3} | change
    with pytest.raises(InputError, match=message):
        integrate(system("rigid-body"), "rk4", **arguments)
