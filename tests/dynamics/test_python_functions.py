"""Systems and maps of Python functions: as formulas where NumPy finds them, else called."""

import math
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import vpintegrator as vp

STATES = np.random.default_rng(0).normal(size=(6, 2))
MATRIX = np.array([[0.0, 1.0], [0.0, 0.0]])


def unpacked(t, y):
    q, p = y
    return p, -np.sin(q)


def of_rows(t, y):
    return np.stack([y[..., 1], -np.sin(y[..., 0])], axis=-1)


def of_batches(t, y):
    return np.concatenate([y[:, 1:], -np.sin(y[:, :1])], axis=1)


def by_matrix(t, y):
    return MATRIX @ y - np.array([0.0, 1.0]) * np.sin(y[0])


def with_zeros(t, y):
    rates = np.zeros(2)
    rates[0], rates[1] = y[1], -math.sin(y[0])
    return rates


def of_tensors(t, y):
    q, p = y.unbind(-1)
    return torch.stack([p, -q.sin()], dim=-1)


class Pendulum:
    def __call__(self, t, y):
        return [y[1], -1.0 * np.sin(y[0])]


RECORDED = [unpacked, of_rows, of_batches, by_matrix, Pendulum()]
CALLED = [with_zeros, of_tensors]


@pytest.mark.parametrize("function", [*RECORDED, *CALLED])
def test_a_function_is_a_system_however_it_is_written(function):
    system = vp.System.from_function(function, dim=2, components=["q", "p"], name="mine")
    assert system.has_formulas == (function in RECORDED)
    expected = np.stack([STATES[:, 1], -np.sin(STATES[:, 0])], axis=-1)
    np.testing.assert_allclose(system.vector_field(STATES), expected, rtol=1e-15)
    tensor = system.vector_field(torch.from_numpy(STATES))
    np.testing.assert_allclose(tensor.numpy(), expected, rtol=1e-15)
    slopes = np.zeros((6, 2, 2))
    slopes[:, 0, 1], slopes[:, 1, 0] = 1, -np.cos(STATES[:, 0])
    np.testing.assert_allclose(system.jacobian(STATES), slopes, atol=1e-11)
    assert system.divergence_free and not system.is_measured
    ways = {with_zeros: "finite differences", of_tensors: "autograd"}
    assert system.derivatives == ways.get(function, "formulas")


ONE = ["sin", "cos", "tanh", "sqrt", "exp", "arctan", "square", "negative", "abs", "sinh"]
TWO = ["add", "subtract", "multiply", "divide", "arctan2", "hypot"]
FORMULAS = st.recursive(
    st.integers(0, 1) | st.floats(-3, 3).map(lambda c: round(c, 2)),
    lambda inner: (
        st.tuples(st.sampled_from(ONE), inner) | st.tuples(st.sampled_from(TWO), inner, inner)
    ),
    max_leaves=12,
)


def value_of(formula, y):
    if not isinstance(formula, tuple):
        return y[formula] if isinstance(formula, int) else formula
    name, *parts = formula
    return getattr(np, name)(*(value_of(part, y) for part in parts))


@given(FORMULAS)
def test_formulas_compute_what_the_function_does(formula):
    state = np.array([0.7, 1.3])
    with np.errstate(all="ignore"):
        expected = np.float64(value_of(formula, state))
    if not 1e-6 < abs(expected) < 1e6:
        return
    try:
        system = vp.System.from_function(
            lambda y: [value_of(formula, y) + 0 * y[0], 1.0 + 0 * y[0]],
            dim=2,
            sample=(state - 0.01, state + 0.01),
        )
    except vp.InputError as error:
        assert "no finite value" in str(error) or "check" in str(error)
        return
    np.testing.assert_allclose(system.vector_field(state)[0], expected, rtol=1e-9)


INERTIA = [2.0, 1.0, 2 / 3]


def rigid_body(t, y):
    a, b, c = (1 / moment for moment in INERTIA)
    return np.array([(c - b) * y[1] * y[2], (a - c) * y[2] * y[0], (b - a) * y[0] * y[1]])


def test_the_same_system_as_a_function_and_as_a_file():
    energy = lambda y: sum(z**2 / (2 * i) for z, i in zip(y, INERTIA, strict=True))  # noqa: E731
    system = vp.System.from_function(
        rigid_body,
        components=["z1", "z2", "z3"],
        divergence_free=True,
        invariants={"energy": energy},
        reversing_symmetries=[[-1, 1, 1]],
        sample={"distribution": "sphere"},
    )
    file = vp.load_system("rigid-body")
    states = np.random.default_rng(0).normal(size=(7, 3))
    for function in ("vector_field", "jacobian"):
        one, other = (getattr(each, function)(states) for each in (system, file))
        np.testing.assert_allclose(one, other, rtol=1e-14, atol=1e-15)
    one, other = (each.invariants["energy"](states) for each in (system, file))
    np.testing.assert_allclose(one, other, rtol=1e-14, atol=1e-15)
    np.testing.assert_array_equal(system.reversing_symmetries[0], np.diag([-1, 1, 1]))


def test_parameters_stay_parameters(tmp_path):
    def spring(t, y, k, masses):
        return [y[1] / masses[0], -k * y[0] / masses[1]]

    system = vp.System.from_function(spring, 2, parameters={"k": 2, "masses": [1.0, 3.0]}, step=0.1)
    assert system.parameters == {"k": 2, "masses": [1.0, 3.0]}
    np.testing.assert_allclose(system.vector_field([1.0, 2.0]), [2.0, -2 / 3])
    other = vp.load_system(system.text, k=5)
    np.testing.assert_allclose(other.vector_field([1.0, 2.0]), [2.0, -5 / 3])
    data = vp.generate(system, tmp_path / "k.h5", count=10, steps=3, vary={"k": [1.0, 3.0]})
    assert data.varied == {"k": (1.0, 3.0)}


def test_parameters_may_be_decided_by_or_count():
    def stiff(t, y, k):
        return [y[1], -k * y[0] if y[0] > 0 else -y[0]]

    def chain(t, y, n):
        return np.concatenate([y[n:], [-y[i] for i in range(n)]])

    system = vp.System.from_function(stiff, 2, parameters={"k": 4.0})
    other = system.with_parameters({"k": 9.0})
    np.testing.assert_allclose(other.vector_field([1.0, 0.0]), [0.0, -9.0])
    with pytest.raises(vp.InputError, match="no parameter 'm'"):
        system.with_parameters({"m": 1.0})
    system = vp.System.from_function(chain, 6, parameters={"n": 3})
    assert system.has_formulas
    np.testing.assert_allclose(system.vector_field(np.arange(6.0)), [3, 4, 5, 0, -1, -2])


def test_functions_of_time():
    def forced(t, y):
        return [y[1], y[0] - y[0] ** 3 + 0.3 * np.cos(1.2 * t)]

    def kicked(t, y):
        return [y[1], -y[0] + (0.3 if np.sin(t) > 0 else -0.3)]

    system = vp.System.from_function(forced, 2, period=2 * np.pi / 1.2)
    assert system.has_formulas and system.period == pytest.approx(2 * np.pi / 1.2, rel=1e-15)
    swapped = vp.System.from_function(lambda y, t: forced(t, y), 2)
    at = [1.0, 2.0, 3.0]
    np.testing.assert_array_equal(system.vector_field(at), swapped.vector_field(at))
    system = vp.System.from_function(kicked, 2, period=2 * np.pi)
    assert (system.time, system.dim, system.has_formulas) == ("t", 3, False)
    rates = system.vector_field([[1.0, 0.0, 1.0], [1.0, 0.0, 4.0]])
    np.testing.assert_allclose(rates, [[0.0, -0.7, 1.0], [0.0, -1.3, 1.0]])


def test_rounded_constants_do_not_refute_a_claim():
    third = 1 / 3

    def turning(t, y):
        return [y[1] * (1 - third), -y[0] * third]

    invariants = {"form": lambda y: y[0] ** 2 * third + y[1] ** 2 * (2 / 3)}
    system = vp.System.from_function(turning, 2, invariants=invariants)
    assert vp.load_system(system.text).invariants.keys() == {"form"}


def spring(t, y):
    """An oscillator whose spring is four times as stiff when it is pressed."""
    return np.stack([y[..., 1], -(1 + 3 * (y[..., 0] > 0)) * y[..., 0]], axis=-1)


def energy_of_spring(z):
    return z[..., 1] ** 2 / 2 + (0.5 + 1.5 * (z[..., 0] > 0)) * z[..., 0] ** 2


def oscillator(**claims):
    given = {"components": ["q", "p"], "hamiltonian": energy_of_spring, "step": 0.1} | claims
    return vp.System.from_function(spring, 2, **given)


def test_a_function_with_decisions_is_called():
    q, p = STATES.T
    for function in (spring, lambda t, y: [y[1], -4.0 * y[0] if float(y[0]) > 0 else -y[0]]):
        system = vp.System.from_function(function, 2)
        expected = np.stack([p, -np.where(q > 0, 4.0, 1.0) * q], axis=-1)
        np.testing.assert_allclose(system.vector_field(STATES), expected, rtol=1e-15)
        assert not system.has_formulas and system.divergence_free
        slopes = system.jacobian(np.array([[0.5, 1.0], [-0.5, 1.0]]))
        np.testing.assert_allclose(slopes[:, 1, 0], [-4.0, -1.0], rtol=1e-10)


@given(exponents=st.tuples(*[st.floats(-30, 30)] * 2))
def test_derivatives_of_a_called_function_are_right_in_any_units(exponents):
    length, speed = (10.0**exponent for exponent in exponents)

    def oscillator(t, y):
        x, v = float(y[0]) / length, float(y[1]) / speed
        return np.array([length * v, speed * (-x - x**3)])

    box = ([-length, -speed], [length, speed])
    called = vp.System.from_function(oscillator, dim=2, divergence_free=True, sample=box)
    assert not called.has_formulas
    jacobian = called.jacobian(np.array([[0.5 * length, 0.3 * speed]]))[0]
    units = np.array([[1, speed / length], [length / speed, 1]])
    assert np.allclose(jacobian * units, [[0, 1], [-1.75, 0]], rtol=0, atol=1e-10)


def test_claims_stay_with_the_text(tmp_path):
    system = oscillator(reversing_symmetries=[[1, -1]])
    assert system.kind == "Hamiltonian" and system.hamiltonian([1.0, 1.0]) == 2.5
    data = vp.generate(system, tmp_path / "spring.h5", count=20, steps=10)
    assert data.system is system
    stored = vp.open_dataset(data.path).system
    assert stored.is_measured and stored.kind == "measured, symplectic"
    assert stored.derivatives == "finite differences"
    assert stored.function.endswith("test_python_functions:spring")
    np.testing.assert_array_equal(stored.reversing_symmetries[0], np.diag([1, -1]))
    assert "def " not in stored.text
    assert vp.open_dataset(data.path, system=system).system is system


def test_classical_methods_run():
    system = oscillator()
    report = vp.compare(None, ["rk4", "implicit-midpoint"], system=system, steps=20, trajectories=2)
    assert report.runs["implicit-midpoint"].volume["step"] is not None
    assert set(report.runs["rk4"].invariants) == {"energy"}


def test_what_needs_formulas_says_so(tmp_path):
    system = oscillator()
    for call in (
        lambda: vp.return_map(system, "q = 0"),
        lambda: vp.generate(system, tmp_path / "a.h5", count=4, steps=3, vary={"step": [0.1, 0.2]}),
        lambda: vp.integrate(system, "rk4", [[1.0, 0.0]], 0.1, 3, compiled=True),
        lambda: vp.compare(None, "stoermer-verlet", system=system, steps=5),
    ):
        with pytest.raises(vp.InputError, match="needs formulas, but spring is a Python function"):
            call()


def test_a_hamiltonian_of_a_network_has_autograd():
    torch.manual_seed(0)
    layers = torch.nn.Linear(2, 6), torch.nn.Tanh(), torch.nn.Linear(6, 1)
    network = torch.nn.Sequential(*layers).double()
    system = vp.System.from_hamiltonian(lambda z: network(z)[..., 0] + z[..., 1] ** 2 / 2, 1)
    slopes = system.jacobian(STATES)
    np.testing.assert_allclose(slopes[:, 0, 0], -slopes[:, 1, 1], atol=1e-14)
    orbit = vp.solve(system, STATES, np.linspace(0, 2, 5))
    drift = system.hamiltonian(orbit) - system.hamiltonian(orbit[:, :1])
    assert np.abs(drift).max() < 1e-11


def damped(t, y):
    return [y[1], -y[0] - 0.1 * y[1]]


def damped_loop(t, y):
    return [y[1], -y[0] - 0.1 * y[1] if y[0] > -99 else 0.0]


def shrinking(z):
    return np.array([z[1], 0.5 * z[0]])


def shrinking_loop(z):
    return np.array([z[1], 0.5 * z[0] if z[0] > -9 else z[0]])


FLOWS, MAPS = (damped, damped_loop), (shrinking, shrinking_loop)


@pytest.mark.parametrize(
    ("functions", "claim", "message"),
    [
        (FLOWS, {"invariants": {"energy": lambda y: y @ y}}, "not constant.* at y1 = "),
        (FLOWS, {"hamiltonian": lambda q, p: p[0] ** 2}, "H/dq., they differ by .* at q ="),
        (FLOWS, {"reversing_symmetries": [[1, -1]]}, "f.rho z. = -rho f.z. fails by .* at y1 ="),
        (FLOWS, {"reversing_symmetries": [[1, 1, 1]]}, "matrices .2, 2., or of the 2 signs"),
        (MAPS, {"structure": "symplectic"}, "form dq dp is kept fails by .* at x1 = "),
        (MAPS, {"invariants": {"r": lambda z: z[0]}}, "r: this is not constant.* changes it by"),
        (MAPS, {"reversing_symmetries": [[1, 1]]}, "rho M rho M = identity fails by"),
    ],
)
def test_wrong_claims_are_refused_with_a_state(functions, claim, message):
    make = vp.System.from_map if functions is MAPS else vp.System.from_function
    for function in functions:
        with pytest.raises(vp.InputError, match=message):
            make(function, 2, **claim)


def test_functions_of_modules_go_to_other_processes():
    system = oscillator()
    again = pickle.loads(pickle.dumps(system))
    np.testing.assert_array_equal(again.vector_field([1.0, 2.0]), system.vector_field([1.0, 2.0]))
    local = vp.System.from_function(lambda t, y: [y[1], -y[0] if y[0] > 0 else y[0]], 2)
    with pytest.raises(vp.InputError, match="cannot be sent to other processes"):
        pickle.dumps(local)


def standard(x, px, K=0.6):
    px = px + K * np.sin(x)
    return x + px, px


def kicked_map(z):
    x, p = z[..., 0], z[..., 1]
    p = p - (0.5 + 0.5 * (x > 0)) * x
    return np.stack([x + p, p], axis=-1)


def test_the_same_map_as_a_function_and_as_a_file():
    parameters = {"K": 0.6}
    map = vp.System.from_map(standard, 2, ["x", "px"], parameters=parameters, periodic=["x"])
    assert (map.kind, map.parameters) == ("symplectic map", parameters)
    file = vp.load_system("""
        state = ["x", "px"]
        parameters = { K = 0.6 }
        map = { x = "x + px + K*sin(x)", px = "px + K*sin(x)" }
    """)
    np.testing.assert_allclose(map.map(STATES), file.map(STATES), rtol=1e-14)
    np.testing.assert_allclose(map.map_jacobian(STATES), file.map_jacobian(STATES), rtol=1e-14)
    assert map.with_parameters({"K": 0.9}).parameters == {"K": 0.9}


def test_a_map_with_decisions_is_called(tmp_path):
    map = vp.System.from_map(kicked_map, 2, ["q", "p"], structure="symplectic", sample=(-0.5, 0.5))
    assert not map.has_formulas
    assert (map.kind, map.derivatives) == ("symplectic map", "finite differences")
    np.testing.assert_array_equal(map.map(STATES), kicked_map(STATES))
    tensor = map.map(torch.from_numpy(STATES))
    np.testing.assert_array_equal(tensor.numpy(), kicked_map(STATES))
    data = vp.generate(map, tmp_path / "kicked.h5", count=20, steps=6)
    np.testing.assert_allclose(data.states("train")[:, 1], kicked_map(data.states("train")[:, 0]))


@pytest.mark.parametrize(
    "turn",
    [
        lambda x, p: (x + p, p),
        lambda z: [z[0] + z[1], z[1]],
        lambda z: torch.stack([z[..., 0] + z[..., 1], z[..., 1]], -1),
    ],
)
def test_arguments_of_maps_are_components_or_the_state(turn):
    map = vp.System.from_map(turn, 2)
    np.testing.assert_array_equal(map.map([[1.0, 2.0]]), [[3.0, 2.0]])
    assert map.kind == "symplectic map"


@pytest.mark.parametrize(
    ("make", "function", "options", "message"),
    [
        ("from_function", 3, {"dim": 2}, "f must be a function, not 3"),
        ("from_function", lambda t, y: y, {}, "say how many components"),
        ("from_function", lambda t, y: y, {"dim": 2, "parameters": {"k": 1}}, "takes no keyword"),
        ("from_function", lambda t, y: [y[0]] if y[0] > 0 else [y[1]], {"dim": 2}, "shape .* is"),
        ("from_function", lambda t, y: "a" if y[0] > 0 else "b", {"dim": 2}, "no array of real"),
        ("from_hamiltonian", energy_of_spring, {"degrees_of_freedom": 1}, "torch's functions"),
        ("from_map", lambda a, b, c: a, {"dim": 2}, "a state of 2 components, or each by itself"),
        ("from_map", lambda z: z * np.nan, {"dim": 2}, "no finite value"),
        ("from_map", lambda z: z, {"dim": 3, "structure": "symplectic"}, "as many momenta"),
        ("from_map", lambda z: z, {"dim": 2, "structure": "sympletic"}, "one of symplectic"),
    ],
)
def test_what_is_no_system_is_refused_in_a_sentence(make, function, options, message):
    with pytest.raises(vp.InputError, match=message):
        getattr(vp.System, make)(function, **options)
