"""Formulas: canonical, differentiated, compiled and evaluated, each against another way."""

import math
from fractions import Fraction

import numpy as np
import pytest
import sympy
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.dynamics.test_expression import formula, to_sympy
from vpintegrator.dynamics import load_system
from vpintegrator.dynamics.claims import vanishes
from vpintegrator.dynamics.expressions import (
    FUNCTIONS,
    Algebra,
    Expression,
    arithmetic,
    evaluation,
    evaluator,
    vectorised,
)
from vpintegrator.dynamics.expressions.nodes import HIGH, PI, function_value, high, power

smooth = st.recursive(
    st.sampled_from(["x", "y", "q[1]", "2", "0.3", "(2/3)"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
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
POINT = torch.tensor([0.3, -0.7, 0.2, 1.1, 0.4, -0.9], dtype=torch.float64)


@given(smooth)
def test_gradients_agree_with_those_of_torch(text):
    value, known = formula(text)
    symbols = known.algebra.variables
    slopes = known.algebra.gradient(value)
    function = vectorised([value], symbols, "torch")

    def of(z):
        return torch.as_tensor(function(*z)[0], dtype=torch.float64) + 0 * z.sum()

    expected = torch.func.grad(of)(POINT)
    columns = vectorised([slopes.get(s, 0) for s in symbols], symbols, "numpy")
    found = np.array(columns(*POINT.numpy()), dtype=float)
    scale = 1 + np.abs(expected.numpy()).max()
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-12 * scale)


@given(smooth)
def test_a_formula_means_the_same_in_every_form(text):
    """Compiled, evaluated one by one, and in SymPy."""
    value, known = formula(text)
    symbols = known.algebra.variables
    point = POINT.numpy()
    expected = float(vectorised([value], symbols, "numpy")(*point)[0])
    walked = evaluator([value], symbols, arithmetic("numpy"))(*point)[0]
    assert float(walked) == pytest.approx(expected, rel=1e-13, abs=1e-13)
    names = {s: sympy.Symbol(f"s{k}", real=True) for k, s in enumerate(symbols)}
    at = {name: sympy.Float(z, 30) for name, z in zip(names.values(), point, strict=True)}
    shown = to_sympy(value, names).subs(at).doit().evalf(30)
    assert float(shown) == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_equal_formulas_are_identical():
    algebra = Algebra()
    x, y = algebra.symbol("x"), algebra.symbol("y")
    assert algebra.subtract(x, x) == 0
    assert algebra.add(x, y, 1) is algebra.add(y, 1, x)
    assert algebra.multiply(2, x, y, 3) is algebra.multiply(algebra.multiply(y, x), 6)
    difference = algebra.subtract(x, y)
    opposite = algebra.subtract(y, x)
    assert algebra.power(difference, 2) is algebra.power(opposite, 2)
    assert algebra.add(algebra.call("sin", difference), algebra.call("sin", opposite)) == 0
    assert algebra.call("cos", difference) is algebra.call("cos", opposite)
    root = algebra.call("sqrt", algebra.multiply(x, y))
    assert algebra.multiply(root, root) is algebra.multiply(x, y)
    square = algebra.power(x, 2)
    assert algebra.call("sqrt", square) is not x  # which is wrong where x < 0
    nested = algebra.scale(3, algebra.add(x, y))
    assert algebra.subtract(nested, nested) == 0


@pytest.mark.parametrize(
    "exponent", [1, 2, 3, 7, 16, 17, 39, *(Fraction(k, 2) for k in (1, 3, 15, 29))]
)
def test_powers_by_squares(exponent):
    algebra = Algebra()
    x = algebra.symbol("x")
    base = algebra.add(1, algebra.power(x, 2))
    values = [algebra.power(base, exponent), algebra.power(base, -exponent)]
    up, down = vectorised(values, [x], "numpy")(np.array([0.3]))
    assert up[0] == pytest.approx(1.09 ** float(exponent), rel=1e-14)
    assert down[0] == pytest.approx(1.09 ** -float(exponent), rel=1e-14)


@pytest.mark.parametrize("count", [1, 40, 41, 81])
def test_long_sums(count):
    algebra = Algebra()
    x = [algebra.symbol("x") for _ in range(count)]
    signs = [(-1) ** (k // 3) * (k % 4) for k in range(count)]
    values = [algebra.combine(zip(x, signs, strict=True)), algebra.add(-7, *x)]
    z = np.random.default_rng(0).normal(size=count)
    found = vectorised(values, x, "numpy")(*z)
    np.testing.assert_allclose(np.array(found, float), [np.dot(signs, z), z.sum() - 7], atol=1e-11)


def test_long_formulas_are_not_compiled_and_mean_the_same(monkeypatch):
    system = load_system("outer-solar-system")
    z = system.sample_initial(3, np.random.default_rng(0))
    expected = system.vector_field(z)
    monkeypatch.setattr(evaluation, "_LARGEST_WRITTEN", 10)
    again = load_system("outer-solar-system")
    np.testing.assert_allclose(again.vector_field(z), expected, rtol=1e-13)
    tensor = torch.tensor(z)
    np.testing.assert_allclose(again.vector_field(tensor).numpy(), expected, rtol=1e-12)


def test_constants_are_exact_or_of_a_hundred_digits():
    assert power(Fraction(9, 4), Fraction(1, 2)) == Fraction(3, 2)
    assert power(2, -3) == Fraction(1, 8)
    assert function_value(FUNCTIONS["cos"], PI * Fraction(1, 3)) == Fraction(1, 2)
    assert function_value(FUNCTIONS["sin"], PI * 1000) == 0
    for name, argument in (("exp", 3), ("log", Fraction(1, 7)), ("tanh", 2), ("sigmoid", -5)):
        assert float(function_value(FUNCTIONS[name], argument)) == pytest.approx(
            {"sigmoid": 1 / (1 + math.exp(5))}.get(name) or getattr(math, name)(float(argument)),
            rel=1e-15,
        )
    root = high(power(2, Fraction(1, 2)))
    assert abs(root**2 - 2) < HIGH.mpf(10) ** -110


def test_what_vanishes_is_found_by_its_values():
    value, known = formula("sin(x)**2 + cos(x)**2 - 1 + (x + y)**2 - x**2 - 2*x*y - y**2")
    assert isinstance(value, Expression)
    assert vanishes(value, known.algebra.variables)
    value, known = formula("1e-25*x")
    assert not vanishes(value, known.algebra.variables)
