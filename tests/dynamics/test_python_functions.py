"""Systems given as Python functions."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import vpintegrator as vp
from vpintegrator.dynamics.functions.calls import read_call, recorded
from vpintegrator.dynamics.functions.traced_text import texts
from vpintegrator.dynamics.functions.tracing import NotTraceable, Tape
from vpintegrator.dynamics.typeset import equations_latex, equations_unicode

INERTIA = [2.0, 1.0, 2 / 3]


def rigid_body(t, y):
    """Angular momentum in the body's frame."""
    a, b, c = (1 / moment for moment in INERTIA)
    return np.array([(c - b) * y[1] * y[2], (a - c) * y[2] * y[0], (b - a) * y[0] * y[1]])


def with_zeros(t, y):
    rates = np.zeros(2)
    rates[0] = y[1]
    rates[1] = -math.sin(y[0])
    return rates


def unpacked(t, y):
    q, p = y
    return p, -np.sin(q)


def of_rows(t, y):
    return np.stack([y[..., 1], -np.sin(y[..., 0])], axis=-1)


def of_batches(t, y):
    return np.concatenate([y[:, 1:], -np.sin(y[:, :1])], axis=1)


def of_tensors(t, y):
    q, p = y.unbind(-1)
    return torch.stack([p, -q.sin()], dim=-1)


def of_parts(y):
    q, p = torch.chunk(y, 2, dim=-1)
    return torch.cat([p, -torch.sin(q)], dim=-1)


MATRIX = np.array([[0.0, 1.0], [0.0, 0.0]])


def by_matrix(t, y):
    return MATRIX @ y - np.array([0.0, 1.0]) * np.sin(y[0])


class Pendulum:
    def __init__(self, strength):
        self.strength = strength

    def force(self, q):
        return -self.strength * math.sin(q)

    def __call__(self, t, y):
        return [y[1], self.force(y[0])]


PENDULUMS = [
    with_zeros,
    unpacked,
    of_rows,
    of_batches,
    of_tensors,
    of_parts,
    by_matrix,
    lambda t, y: by_matrix(t, y),
]


@pytest.mark.parametrize("function", PENDULUMS)
def test_a_function_becomes_formulas_however_it_is_written(function):
    system = vp.System.from_function(function, dim=2, components=["q", "p"], name="mine")
    states = np.random.default_rng(0).normal(size=(5, 2))
    expected = np.stack([states[:, 1], -np.sin(states[:, 0])], axis=-1)
    np.testing.assert_allclose(system.vector_field(states), expected, rtol=1e-15)
    assert system.divergence_free
    again = vp.load_system(system.text)
    np.testing.assert_array_equal(again.vector_field(states), system.vector_field(states))


def test_a_callable_object_is_a_function():
    system = vp.System.from_function(Pendulum(2.5), dim=2)
    assert "2.5" in system.text
    assert system.name == "Pendulum"


def test_the_same_system_as_a_function_and_as_a_file():
    system = vp.System.from_function(
        rigid_body,
        dim=3,
        components=["z1", "z2", "z3"],
        divergence_free=True,
        invariants={
            "energy": lambda y: sum(z**2 / (2 * i) for z, i in zip(y, INERTIA, strict=True))
        },
        reversing_symmetries=[[-1, 1, 1]],
        sample={"distribution": "sphere"},
        step=0.2,
    )
    file = vp.load_system("rigid-body")
    states = np.random.default_rng(0).normal(size=(7, 3))
    np.testing.assert_allclose(
        system.vector_field(states), file.vector_field(states), rtol=1e-14, atol=1e-15
    )
    np.testing.assert_allclose(system.jacobian(states), file.jacobian(states), atol=1e-15)
    np.testing.assert_allclose(
        system.invariants["energy"](states), file.invariants["energy"](states), rtol=1e-14
    )
    np.testing.assert_array_equal(system.reversing_symmetries[0], np.diag([-1, 1, 1]))
    assert "Angular momentum" in system.description
    start = {"initial": states[:2] / 2, "steps": 30, "compiled": False}
    reports = [vp.compare(None, "rk4", system=s, step=0.2, **start) for s in (system, file)]
    one, other = (report.runs["rk4"] for report in reports)
    np.testing.assert_allclose(one.states, other.states, atol=1e-13)
    drift = [run.invariants["energy"].largest for run in (one, other)]
    np.testing.assert_allclose(*drift, atol=1e-13)


def test_data_of_a_function_train_a_model(tmp_path):
    system = vp.System.from_hamiltonian(
        lambda q, p: p @ p / 2 - np.cos(q[0]), 1, sample=(-1.0, 1.0), step=0.3, name="own"
    )
    assert system.structure == "Hamiltonian"
    file = vp.load_system("pendulum")
    states = system.sample_initial(4, np.random.default_rng(1))
    np.testing.assert_allclose(system.vector_field(states), file.vector_field(states), rtol=1e-15)
    data = vp.generate(system, tmp_path / "own.h5", count=20, steps=4)
    assert vp.open_dataset(data.path).system.text == system.text
    report = vp.compare(None, "stoermer-verlet", system=data.system, steps=5, trajectories=2)
    assert report.runs["stoermer-verlet"].states.shape == (2, 6, 2)


def test_parameters_stay_parameters(tmp_path):
    def spring(t, y, k, masses):
        return [y[1] / masses[0], -k * y[0] / masses[1]]

    values = {"k": 2, "masses": [1.0, 3.0]}
    system = vp.System.from_function(spring, 2, parameters=values, step=0.1)
    assert system.parameters == {"k": 2, "masses": [1.0, 3.0]}
    np.testing.assert_allclose(system.vector_field([1.0, 2.0]), [2.0, -2 / 3])
    other = vp.load_system(system.text, k=5)
    np.testing.assert_allclose(other.vector_field([1.0, 2.0]), [2.0, -5 / 3])
    data = vp.generate(system, tmp_path / "k.h5", count=10, steps=3, vary={"k": [1.0, 3.0]})
    assert data.varied == {"k": (1.0, 3.0)}


def test_whole_numbers_count():
    def chain(t, y, n):
        rates = np.zeros(2 * n)
        for i in range(n):
            rates[i], rates[n + i] = y[n + i], -y[i]
        return rates

    system = vp.System.from_function(chain, 6, parameters={"n": 3})
    np.testing.assert_allclose(system.vector_field(np.arange(6.0)), [3, 4, 5, 0, -1, -2])


def test_a_function_of_time():
    def forced(t, y):
        return [y[1], y[0] - y[0] ** 3 + 0.3 * np.cos(1.2 * t)]

    system = vp.System.from_function(forced, 2, period=2 * np.pi / 1.2)
    assert system.time == "t"
    assert system.period == pytest.approx(2 * np.pi / 1.2, rel=1e-15)
    swapped = vp.System.from_function(lambda y, t: forced(t, y), 2)
    np.testing.assert_array_equal(
        system.vector_field([1.0, 2.0, 3.0]), swapped.vector_field([1.0, 2.0, 3.0])
    )


def test_long_functions_name_what_they_compute_twice():
    def nested(t, y):
        u = y[0]
        for _ in range(40):
            u = np.sin(u) * np.cos(u) + u
        return [u, -y[1]]

    system = vp.System.from_function(nested, 2)
    assert "[auxiliary]" in system.text
    state = np.array([0.3, 0.7])
    np.testing.assert_allclose(system.vector_field(state), nested(0.0, state), rtol=1e-13)
    assert "u1" in equations_unicode(system)
    assert "u1" in equations_latex(system) or "u_{1}" in equations_latex(system)


def test_rounded_constants_do_not_refute_a_claim():
    third = 1 / 3

    def turning(t, y):
        return [y[1] * (1 - third), -y[0] * third]

    invariants = {"form": lambda y: y[0] ** 2 * third + y[1] ** 2 * (2 / 3)}
    system = vp.System.from_function(turning, 2, invariants=invariants)
    assert "rounded = true" in system.text
    assert vp.load_system(system.text).invariants.keys() == {"form"}


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        ({"invariants": {"energy": lambda y: y @ y}}, "energy: this is not constant.* at y1 = "),
        ({"divergence_free": True}, "divergence of the vector field is -0.1.* at y1 = "),
        ({"hamiltonian": lambda q, p: p[0] ** 2}, "not .dH/dp, -dH/dq., they differ by .* at q ="),
        ({"reversing_symmetries": [[1, -1]]}, "does not reverse the system.* fails by .* at y1 ="),
        ({"periodic": ["y1"]}, "changes by .* where angles turn"),
        ({"periodic": ["q"]}, "there is no component 'q'"),
        ({"reversing_symmetries": [[1, 1, 1]]}, "are matrices .2, 2. or the 2 signs"),
        ({"invariants": [1]}, "dictionary of functions"),
        ({"energy": 1}, "no argument 'energy'"),
    ],
)
def test_wrong_claims_are_refused_with_a_state(claim, message):
    def damped(t, y):
        return [y[1], -y[0] - 0.1 * y[1]]

    with pytest.raises(vp.InputError, match=message):
        vp.System.from_function(damped, 2, **claim)


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        (3, {"dim": 2}, "f must be a function, not 3"),
        (len, {"dim": 2}, "len"),
        (lambda t, y: y, {}, "say how many components"),
        (lambda t, y: y, {"dim": 0}, "1 to"),
        (lambda t, y: y, {"dim": 2, "components": ["q"]}, "1 names"),
        (lambda t, y: y, {"components": ["q", "q"]}, "there twice"),
        (lambda a, b, c: a, {"dim": 2}, r"must take f\(t, y\) or f\(y\)"),
        (lambda t, y: y, {"dim": 2, "parameters": {"k": 1}}, "takes no keyword 'k'"),
        (lambda t, y, k: y, {"dim": 2, "parameters": {"k": "a"}}, "must be a number"),
        (lambda t, y: y, {"dim": 2, "sample": 3}, "sample must be a tuple"),
        (lambda t, y: y, {"dim": 2, "step": -1}, "positive"),
        (lambda t, y: y[:1], {"dim": 2}, "shape"),
    ],
)
def test_what_is_no_system_is_refused_in_a_sentence(given, options, message):
    with pytest.raises(vp.InputError, match=message):
        vp.System.from_function(given, **options)


def expressions(function, count=2):
    tape = Tape()
    names = ["x0", "x1"]
    call = read_call(function, "f", {})
    values = recorded(call, [tape.symbol(name) for name in names], 0.0, {}, count)
    return texts(values, tape, names)[0]


@pytest.mark.parametrize(
    "function",
    [
        lambda y: np.where(y == 1, y, -y),
        lambda y: (y > 0) * y,
        lambda y: [y[y > 0].sum(), y[1]],
        lambda y: y if y[0] > 0 else -y,
        lambda y: np.array([float(v) for v in y.tolist()]) + np.fft.fft(y),
        lambda y: torch.nn.functional.linear(y, torch.eye(2)),
        lambda y: [y[0] % 2, y[1]],
        lambda y: np.sort(y),
        lambda y: y * np.inf,
    ],
)
def test_what_no_formula_says_is_not_recorded(function):
    with pytest.raises(NotTraceable):
        expressions(function)


def formulas():
    one = st.tuples(st.sampled_from(["sin", "cos", "tanh", "arctan", "square", "negative"]))
    two = st.sampled_from(["add", "subtract", "multiply", "divide", "arctan2", "hypot"])
    leaf = st.integers(0, 1) | st.floats(-3, 3).map(lambda c: round(c, 2))
    return st.recursive(
        leaf,
        lambda inner: st.tuples(one.map(lambda t: t[0]), inner) | st.tuples(two, inner, inner),
        max_leaves=12,
    )


def value_of(formula, y):
    if isinstance(formula, int):
        return y[formula]
    if isinstance(formula, float):
        return formula
    name, *parts = formula
    return getattr(np, name)(*(value_of(part, y) for part in parts))


@given(formulas())
def test_formulas_compute_what_the_function_does(formula):
    state = np.array([0.7, -1.3])
    with np.errstate(all="ignore"):
        expected = np.float64(value_of(formula, state))
    if not 1e-6 < abs(expected) < 1e6:
        return
    try:
        (text,) = expressions(lambda y: [value_of(formula, y)], 1)
    except NotTraceable:
        return  # constants alone that have no finite value
    try:
        system = vp.load_system(f'state = ["x0", "x1"]\n[vector_field]\nx0 = "{text}"\nx1 = "1"')
    except vp.InputError:
        return  # a constant that is no number, which floating point passes over
    np.testing.assert_allclose(system.vector_field(state)[0], expected, rtol=1e-9)


JUNK = [None, 3, "x", b"x", object(), [], [1, "a"], {"a": 1}, np.zeros((2, 3, 4)), np.zeros(0)]
JUNK += [float("nan"), lambda *arguments: None, torch.nn.Linear(3, 5), dict, (1, "a"), (1, 2)]


def pair(t, y):
    return [y[1], -y[0]]


@pytest.mark.parametrize("junk", JUNK, ids=lambda junk: type(junk).__name__)
@pytest.mark.parametrize(
    "make",
    [
        lambda junk: vp.System.from_function(junk, 2),
        lambda junk: vp.System.from_hamiltonian(junk, 1),
        lambda junk: vp.Map.from_function(junk, 2),
        *(
            lambda junk, name=name: vp.System.from_function(pair, **({"dim": 2} | {name: junk}))
            for name in ("dim", "components", "sample", "step", "parameters", "name")
        ),
        *(
            lambda junk, name=name: vp.System.from_function(pair, 2, **{name: junk})
            for name in (
                *("hamiltonian", "divergence_free", "reversing_symmetries", "invariants"),
                *("periodic", "period", "claims"),
            )
        ),
        lambda junk: vp.System.from_function(pair, 2, invariants={"a": junk}),
        lambda junk: vp.System.from_function(pair, 2, parameters={"a": junk}),
        *(
            lambda junk, name=name: vp.Map.from_function(lambda z: z, 2, **{name: junk})
            for name in ("structure", "sample", "invariants", "periodic")
        ),
    ],
)
def test_what_is_no_argument_is_refused_in_a_sentence(make, junk):
    try:
        make(junk)
    except vp.InputError as error:
        assert str(error)
