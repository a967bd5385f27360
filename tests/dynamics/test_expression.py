"""The expression language: Python's own arithmetic on the same text is the oracle."""

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.special
import torch
from hypothesis import given
from hypothesis import strategies as st

import vpintegrator as vp
from vpintegrator.compiled import CompiledMethod
from vpintegrator.dynamics.expressions import evaluation, functions
from vpintegrator.dynamics.expressions.algebra import Algebra
from vpintegrator.dynamics.expressions.evaluation import arithmetic, evaluator, vectorised
from vpintegrator.dynamics.expressions.functions import FUNCTIONS
from vpintegrator.dynamics.expressions.nodes import HIGH, PI, function_value, high, power
from vpintegrator.dynamics.expressions.parsing import Scope, parse
from vpintegrator.dynamics.typeset import equations_latex
from vpintegrator.errors import InputError
from vpintegrator.maps import METHODS, ClassicalMap

POINT = torch.tensor([0.375, -0.625, 0.2, 1.1, 0.4, -0.9], dtype=torch.float64)
NAMES = {
    **{name: getattr(math, name) for name in ("sin", "cos", "tanh", "exp", "log", "sqrt", "atan2")},
    "erf": math.erf,
    "sign": np.sign,
    "sigmoid": scipy.special.expit,
    "n": 4,
    "where": lambda condition, one, other: one if condition else other,
}
smooth = st.recursive(
    st.sampled_from(["x", "y", "q[1]", "2", "0.3", "(2/3)", "17"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        inner.map(lambda e: f"(-{e})"),
        st.tuples(inner, inner).map(lambda t: f"({t[0]}/(3 + sin({t[1]})))"),
        st.tuples(st.sampled_from(["sin", "cos", "tanh", "sigmoid"]), inner).map("%s(%s)".__mod__),
        inner.map(lambda e: f"exp(-({e})**2)"),
        inner.map(lambda e: f"log(1 + ({e})**2)"),
        st.tuples(inner, inner).map("atan2(sin(%s), 2 + cos(%s))".__mod__),
        inner.map(lambda e: f"atan2(2, {e})"),
        inner.map(lambda e: f"sqrt(1 + ({e})**2)"),
        st.tuples(inner, st.sampled_from([2, 3, 4, 7])).map("(sin(%s))**%s".__mod__),
        st.tuples(inner, inner).map("(2 + cos(%s))**sin(%s)".__mod__),
    ),
    max_leaves=10,
)


def formula(text):
    algebra = Algebra()
    values = {"x": algebra.symbol("x"), "y": algebra.symbol("y")}
    known = Scope({**values, "q": tuple(map(algebra.symbol, "abcd"))}, {"n": 4}, algebra)
    return parse(text, known, "my.toml, [vector_field] x"), algebra


def check(text, point):
    """Compiled for NumPy and PyTorch, and evaluated one by one; its derivatives, too."""
    value, algebra = formula(text)
    x, y, *q = point.tolist()
    expected = eval(text, {**NAMES, "x": x, "y": y, "q": q})
    symbols = algebra.variables
    for computed in (
        vectorised([value], symbols, "numpy")(*point.numpy()),
        evaluator([value], symbols, arithmetic("numpy"))(*point.numpy()),
        (of_torch := vectorised([value], symbols, "torch"))(*point),
    ):
        assert float(computed[0]) == pytest.approx(expected, rel=1e-12, abs=1e-12)

    def of(z):
        return torch.as_tensor(of_torch(*z)[0], dtype=torch.float64) + 0 * z.sum()

    slopes = algebra.gradient(value)
    columns = vectorised([slopes.get(s, 0) for s in symbols], symbols, "numpy")
    found, expected = np.array(columns(*point.numpy()), dtype=float), torch.func.grad(of)(point)
    scale = 1 + np.abs(expected.numpy()).max()
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-12 * scale)


@given(smooth)
def test_a_formula_means_the_same_in_every_form(text):
    check(text, POINT)


@pytest.mark.parametrize(
    "text",
    [
        "0.1*x + sum(q[i]**2 for i in range(n))",
        "sum(q[(i + 1) % n] for i in range(1, n))",
        "sum(q[i]*q[j] for i in range(n) for j in range(i))",
        "sum((i % 2)*q[i] + (i // 2)*x for i in range(len(q))) + q[len(q) - 1]/len(q)",
        *("abs(x)", "sign(x)", "erf(x)", "min(x, 1, -x)", "max(x, 1/2)"),
        *("where(x > 1, 3, x)", "where(x >= 1, 3, x/2)", "where(x < 1, x**2, 7)"),
        *("where(x <= 1, x**2, 7)", "where(-1 < x <= 1, x, 0)"),
        *(f"(1 + x**2)**({k})" for k in (16, 17, 39, -7, -39, "1/2", "29/2", "-15/2")),
        *(f"sum((i % 4)*sin(i*x) - cos(i*y) for i in range({count}))" for count in (40, 41, 81)),
    ],
)
@pytest.mark.parametrize("x", [-2.0, -1.0, -0.3, 0.25, 0.75, 1.0, 2.0])
def test_sums_and_branches(text, x):
    point = POINT.clone()
    point[0] = x
    if x in (-1.0, 1.0) and "where" in text:  # no derivative, but a value
        value, algebra = formula(text)
        found = vectorised([value], algebra.variables[:1], "numpy")(np.array([x]))[0]
        assert found == pytest.approx(eval(text, {**NAMES, "x": x}), rel=1e-15)
    else:
        check(text, point)


@pytest.mark.parametrize(
    "zero",
    [
        *("x - x", "(x + y + 1) - (y + 1 + x)", "2*x*y*3 - (y*x)*6", "3*(x + y) - 3*(y + x)"),
        *("(x - y)**2 - (y - x)**2", "sin(x - y) + sin(y - x)", "cos(x - y) - cos(y - x)"),
        "sqrt(x*y)*sqrt(x*y) - x*y",
    ],
)
def test_equal_formulas_are_identical(zero):
    assert formula(zero)[0] == 0 != formula("sqrt(x**2) - x")[0]


def test_long_formulas_are_not_compiled_and_mean_the_same(monkeypatch):
    system = vp.load_system("outer-solar-system")
    z = system.sample_initial(3, np.random.default_rng(0))
    expected = system.vector_field(z)
    monkeypatch.setattr(evaluation, "_LARGEST_WRITTEN", 10)
    again = vp.load_system("outer-solar-system")
    np.testing.assert_allclose(again.vector_field(z), expected, rtol=1e-13)
    found = again.vector_field(torch.tensor(z)).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_constants_are_exact_or_of_a_hundred_digits():
    assert power(Fraction(9, 4), Fraction(1, 2)) == Fraction(3, 2)
    assert power(2, -3) == Fraction(1, 8)
    assert function_value(FUNCTIONS["cos"], PI * Fraction(1, 3)) == Fraction(1, 2)
    assert function_value(FUNCTIONS["sin"], PI * 1000) == 0
    for name, argument in (("exp", 3), ("log", Fraction(1, 7)), ("tanh", 2), ("sigmoid", -5)):
        found = float(function_value(FUNCTIONS[name], argument))
        assert found == pytest.approx(NAMES[name](float(argument)), rel=1e-15)
    root = high(power(2, Fraction(1, 2)))
    assert abs(root**2 - 2) < HIGH.mpf(10) ** -110


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("__import__('os')", "column 1: unknown function '__import__'"),
        ("x + z", "column 5: unknown name 'z'"),
        ("x % 2", "column 1: an index, a range, % and // take whole numbers"),
        ("sum(x)", "column 1: a sum is written"),
        ("sum(i for i in range(99999999))", "column 1: .*more than 300000"),
        ("x > 1", "'x > 1' is not allowed"),
        ("where(x == 1, 1, 2)", "a comparison is one of"),
        ("q[4]", "index 4 of 'q' is outside"),
        ("sin(x, y)", r"is written sin\(x\)"),
        *((text, "") for text in ("", "(" * 500 + "x" + ")" * 500, "x" * 30_000, "sqrt(-1)*x")),
        *((value, "expected an expression in quotes") for value in (None, [1], True, np.inf)),
    ],
)
def test_refusals_name_the_place(text, message):
    with pytest.raises(InputError, match=rf"^my.toml, \[vector_field\] x.*{message}"):
        formula(text)


def test_a_new_function_is_one_entry_of_the_table(monkeypatch):
    """Parsing, derivatives, NumPy, PyTorch, many digits, LaTeX and machine code read the entry."""
    for name, slope, parity in (("cosh", "sinh", 1), ("sinh", "cosh", -1)):
        entry = functions._of_one(name, lambda a, x, f, to=slope: a.call(to, x), parity=parity)
        monkeypatch.setitem(functions.FUNCTIONS, name, entry)
    system = vp.load_system(
        'state = ["q", "p"]\nhamiltonian = "p**2/2 + cosh(q)"\n'
        '[[reversing_symmetry]]\nq = "-q"\np = "p"\n'
    )
    z = np.random.default_rng(0).normal(size=(20, 2))
    np.testing.assert_allclose(system.vector_field(z)[:, 1], -np.sinh(z[:, 0]), rtol=1e-14)
    found = system.jacobian(torch.tensor(z))[:, 1, 0].numpy()
    np.testing.assert_allclose(found, -np.cosh(z[:, 0]), rtol=1e-14)
    assert r"\sinh{\left(q \right)}" in equations_latex(system)
    assert system.hamiltonian_formula == "(0.5*z[1]**2 + cosh(z[0]))"
    agree("rk4", system, z, 3)


def agree(name, system, z, steps):
    """Machine code of a method agrees with the method."""
    method = METHODS[name]
    expected = next(ClassicalMap(method, system, 0.1).advance(z[:, None], steps))
    machine = next(CompiledMethod(method, system, z, 0.1).advance(z[:, None], steps))
    np.testing.assert_allclose(machine, expected, atol=1e-13)


@pytest.mark.parametrize("name", ["rk4", "yoshida-4"])
def test_machine_code_of_signs_and_choices(name):
    system = vp.load_system(
        'state = ["q", "p"]\n'
        'hamiltonian = "p**2/2 + abs(q) + where(q <= -1/2, q**2, 0) + max(q, 1)*sign(q + 1)"\n'
    )
    z = np.random.default_rng(0).uniform(-1.5, 1.5, (40, 2))
    z[:3] = [[0.0, 0.0], [-0.5, 0.0], [1.0, 0.0]]
    agree(name, system, z, 30)
    unknown = CompiledMethod(METHODS[name], system, z, 0.1).advance(np.array([[[np.nan, 1.0]]]), 2)
    assert np.isnan(next(unknown)).any()


def test_a_piecewise_oscillator_keeps_its_energy():
    system = vp.load_system(
        'state = ["q", "p"]\nhamiltonian = "p**2/2 + q**2/2 + where(q > 1, 5*(q - 1)**2, 0)"\n'
    )
    states = vp.solve(system, np.array([[0.5, 1.5]]), np.linspace(0, 20, 201))
    assert states[..., 0].max() > 1
    energy = system.invariants["energy"](states)
    assert np.abs(energy - energy[:, :1]).max() < 1e-9
