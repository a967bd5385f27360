"""The expression language: what it means, and that it can do nothing but mean."""

import math

import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

import vpintegrator as vp
from vpintegrator.compiled import CompiledMethod
from vpintegrator.dynamics.expressions import Algebra, Scope, fold, functions, parse, vectorised
from vpintegrator.dynamics.typeset import equations_latex
from vpintegrator.errors import InputError
from vpintegrator.maps import METHODS, ClassicalMap

x, y = sympy.symbols("x y", real=True)
q = sympy.symbols("q_0:4", real=True)


class InSymPy:
    """SymPy's expressions as the meaning of formulas."""

    def number(self, value):
        return sympy.Rational(value.numerator, value.denominator)

    def sum(self, constant, terms):
        return self.number(constant) + sum(self.number(c) * term for term, c in terms)

    def product(self, factors):
        return sympy.prod([base ** self.number(e) for base, e in factors])

    def call(self, function, *arguments):
        if function.name == "sigmoid":
            return 1 / (1 + sympy.exp(-arguments[0]))
        return function.sympy(sympy)(*arguments)


def formula(text):
    algebra = Algebra()
    values = {"x": algebra.symbol("x"), "y": algebra.symbol("y")}
    known = Scope({**values, "q": tuple(map(algebra.symbol, "abcd"))}, {"n": 4}, algebra)
    return parse(text, known, "my.toml, [vector_field] x"), known


def to_sympy(value, names):
    return fold([value], names, InSymPy())[0]


def read(text):
    """The formula in SymPy."""
    value, known = formula(text)
    return to_sympy(value, dict(zip(known.algebra.variables, (x, y, *q), strict=True)))


def test_operations_and_functions():
    expected = x**2 / 2 - sympy.sin(y) * sympy.sqrt(x)
    assert read("x**2/2 - sin(y)*sqrt(x)") == expected
    assert abs(read("pi") - sympy.pi).evalf(100) < 1e-90


def test_sums_and_indices():
    assert read("0.1*x") == x / 10  # decimals are exact
    assert read("sum(q[i]**2 for i in range(n))") == sum(c**2 for c in q)
    assert read("sum(q[(i + 1) % n] for i in range(1, n))") == q[2] + q[3] + q[0]
    nested = read("sum(q[i]*q[j] for i in range(n) for j in range(i))")
    assert sympy.expand(nested - sum(q[i] * q[j] for i in range(4) for j in range(i))) == 0

    assert read("sum((i % 2)*q[i] + (i // 2)*x for i in range(len(q)))") == q[1] + q[3] + 2 * x
    assert read("q[len(q) - 1]/len(q)") == q[3] / 4

    assert read("sum(i*x for i in range(n))") == 6 * x


leaves = st.one_of(
    st.sampled_from(["x", "y"]), st.integers(0, 99).map(str), st.sampled_from(["0.5", "1.25"])
)
expressions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        inner.map(lambda e: f"(-{e})"),
        inner.map(lambda e: f"sin({e})"),
        inner.map(lambda e: f"tanh({e})"),
        inner.map(lambda e: f"({e})**2"),
        st.tuples(inner, inner).map("atan2(%s, 1 + (%s)**2)".__mod__),
    ),
    max_leaves=8,
)


@given(expressions)
def test_agrees_with_python(text):
    """Python's own arithmetic on the same text is the oracle."""
    values = {"x": 0.375, "y": -0.625}
    expected = eval(text, {"sin": math.sin, "tanh": math.tanh, "atan2": math.atan2}, values)
    value, known = formula(text)
    function = vectorised([value], known.algebra.variables[:2], "numpy")
    assert function(*values.values())[0] == pytest.approx(expected, rel=1e-9, abs=1e-9)
    found = float(read(text).subs({x: values["x"], y: values["y"]}).evalf(30))
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("__import__('os')", 1, "unknown function '__import__'"),
        ("x + z", 5, "unknown name 'z'"),
        ("x % 2", 1, "an index, a range, % and // take whole numbers"),
        ("sum(x)", 1, "a sum is written"),
        ("sum(i for i in range(99999999))", 1, "more than 300000"),
    ],
)
def test_refusals_name_the_column(text, column, message):
    with pytest.raises(InputError, match=f"column {column}: .*{message}"):
        formula(text)


def test_refusals_without_a_column():
    for text in ("", "(" * 500 + "x" + ")" * 500, "x" * 30_000, "sqrt(-1)*x", None, [1], True):
        with pytest.raises(InputError, match=r"^my.toml, \[vector_field\] x"):
            formula(text)


def test_a_new_function_is_one_entry_of_the_table(monkeypatch):
    """Parsing, derivatives, NumPy, PyTorch, many digits, LaTeX and machine code read the entry."""
    torch = pytest.importorskip("torch")
    entries = {
        "cosh": functions._of_one("cosh", lambda a, x, f: a.call("sinh", x), parity=1),
        "sinh": functions._of_one("sinh", lambda a, x, f: a.call("cosh", x), parity=-1),
    }
    for name, entry in entries.items():
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
    method = METHODS["rk4"]
    machine = next(CompiledMethod(method, system, z, 0.1).advance(z[:, None], 3))
    np.testing.assert_allclose(
        machine, next(ClassicalMap(method, system, 0.1).advance(z[:, None], 3)), atol=1e-13
    )
