"""Tables of system files: cubic splines in NumPy, PyTorch, derivatives, machine code and files."""

import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.interpolate import CubicSpline

import vpintegrator as vp
from vpintegrator.dynamics.expressions import Algebra, vectorised
from vpintegrator.dynamics.expressions.splines import cubic_spline, table_function
from vpintegrator.dynamics.typeset import equations_latex, equations_unicode
from vpintegrator.errors import InputError
from vpintegrator.rollout.classical import METHODS, CompiledMethod

POINTS = [-2.0, -1.25, -0.5, 0.0, 0.5, 1.25, 2.0]
VALUES = [1.5, 1.2, 0.4, 0.0, 0.4, 1.2, 1.5]
WELL = f"""
state = ["q", "p"]
hamiltonian = "p**2/2 + well(q)"
[tables.well]
x = {POINTS}
y = {VALUES}
"""


@st.composite
def tables(draw):
    count = draw(st.integers(4, 12))
    steps = draw(st.lists(st.floats(0.1, 2.0), min_size=count - 1, max_size=count - 1))
    y = draw(st.lists(st.floats(-3.0, 3.0), min_size=count, max_size=count))
    periodic = draw(st.booleans())
    x = draw(st.floats(-2.0, 2.0)) + np.cumsum([0.0, *steps])
    return x, np.array([*y[:-1], y[0]] if periodic else y), periodic


@given(tables(), st.integers(0, 10**6))
def test_values_and_derivatives_are_those_of_scipy(table, seed):
    x, y, periodic = table
    boundary = "periodic" if periodic else "not-a-knot"
    known = CubicSpline(x, y, bc_type=boundary, extrapolate="periodic" if periodic else False)
    length = x[-1] - x[0]
    at = np.random.default_rng(seed).uniform(x[0] - 1.5 * length, x[-1] + 1.5 * length, 60)
    function = table_function("f", cubic_spline(x, y, boundary))
    algebra = Algebra()
    symbol = algebra.symbol("q")
    value = algebra.call(function, symbol)
    for order in range(4):
        expected = known(at, order)
        scale = 1 + np.nanmax(np.abs(known.c)) if np.isfinite(expected).any() else 1
        found = vectorised([value], [symbol], "numpy")(at)[0]
        np.testing.assert_allclose(found, expected, atol=1e-10 * scale)
        tensor = vectorised([value], [symbol], "torch")(torch.tensor(at))
        np.testing.assert_allclose(tensor[0].numpy(), expected, atol=1e-10 * scale)
        value = algebra.gradient(value).get(symbol, 0)
    assert value == 0


@given(st.floats(-1.9, 1.9), st.floats(-1.0, 1.0))
def test_derivatives_of_tensors_are_exact(q, p):
    system, z = vp.load_system(WELL), torch.tensor([q, p], dtype=torch.float64)
    for function in (torch.func.jacrev, torch.func.jacfwd):
        found = torch.func.vmap(function(system.vector_field))(z[None])[0]
        np.testing.assert_allclose(found.numpy(), system.jacobian(z).numpy(), atol=1e-13)
    second = torch.autograd.functional.hessian(system.hamiltonian, z)
    assert float(second[0, 0]) == pytest.approx(CubicSpline(POINTS, VALUES)(q, 2), abs=1e-12)
    step = system.hamiltonian(np.array([q + 1e-30j, p]))
    assert step.imag / 1e-30 == pytest.approx(CubicSpline(POINTS, VALUES)(q, 1), abs=1e-13)


def test_outside_the_table_there_is_no_value():
    system = vp.load_system(WELL)
    states = np.array([[2.0, 0.0], [2.0001, 0.0], [-2.0, 0.0], [np.nan, 0.0], [-9.0, 0.0]])
    missing = [False, True, False, True, True]
    assert np.isnan(system.vector_field(states)[:, 1]).tolist() == missing
    assert torch.isnan(system.vector_field(torch.tensor(states))[:, 1]).tolist() == missing
    assert np.isnan(vp.integrate(system, "rk4", [[1.9, 3.0]], 0.1, 9)[0, -1]).all()


def test_a_periodic_table_goes_on():
    grid = np.linspace(0, 2 * np.pi, 33)
    wave = np.cos(grid).tolist()
    wave[-1] = wave[0]
    system = vp.load_system(
        f'state = ["q", "p"]\nhamiltonian = "p**2/2 - wave(q)"\nperiodic = {{ q = "2*pi" }}\n'
        f'[tables.wave]\nx = {grid.tolist()}\ny = {wave}\nboundary = "periodic"\n'
    )
    z = np.random.default_rng(0).normal(size=(50, 2)) * [20, 1]
    assert np.allclose(system.vector_field(z)[:, 1], -np.sin(z[:, 0]), atol=2e-4)


@pytest.mark.parametrize("name", ["rk4", "yoshida-4", "dormand-prince-8"])
def test_machine_code_of_a_table(name, monkeypatch):
    system, method = vp.load_system(WELL), METHODS[name]
    z = np.random.default_rng(0).uniform(-1, 1, (40, 2))
    z[:2] = [[0.0, 0.0], [1.9, 3.0]]
    expected = method.start(system, z, 0.1).advance(30)
    machine = CompiledMethod(method, system, z, 0.1).start(z, 0.1).advance(30)
    np.testing.assert_allclose(machine, expected, atol=1e-13)


def test_claims_are_checked_with_the_table():
    symmetric = '[[reversing_symmetry]]\nq = "-q"\np = "p"\n'
    system = vp.load_system(WELL + symmetric)
    assert system.divergence_free and len(system.reversing_symmetries) == 1
    with pytest.raises(InputError, match="this does not reverse the system"):
        vp.load_system(WELL.replace("1.5]", "1.6]") + symmetric)
    with pytest.raises(InputError, match="not constant along solutions"):
        vp.load_system(WELL + '[invariants]\nwrong = "well(q)"\n')


def test_other_formulas_hold_tables():
    text = WELL.replace('hamiltonian = "p**2/2 + well(q)"', "")
    system = vp.load_system(
        text + "[parameters]\nm = 2\n[auxiliary]\nv = 'well(q)/m'\n[vector_field]\n"
        "q = 'p'\np = '-well(q) - v'\n"
    )
    assert system.vector_field([1.25, 0.0])[1] == pytest.approx(-1.8)
    assert system.field_formulas == []  # such a text would be read without the table
    assert "well" in equations_unicode(system)
    assert r"\operatorname{well'}" in equations_latex(vp.load_system(WELL))


def test_a_file_beside_the_system_is_put_into_the_text(tmp_path):
    lines = "\n".join(f"{x!r}, {y!r}" for x, y in zip(POINTS, VALUES, strict=True))
    (tmp_path / "well.csv").write_text(f"# measured\nq, V\n{lines}\n")
    head = WELL[: WELL.index("x = [")]
    path = tmp_path / "own.toml"
    path.write_text(head + 'file = "well.csv"  # beside\n[parameters]\nk = 1\n')
    system = vp.load_system(path)
    assert "well.csv" not in system.text
    again = vp.System(system.text, "again")
    z = np.random.default_rng(0).uniform(-2, 2, (20, 2))
    assert np.array_equal(again.vector_field(z), vp.load_system(WELL).vector_field(z))
    with pytest.raises(InputError, match="give x and y"):
        vp.load_system(head + 'file = "well.csv"\n')
    refused = {
        'file = "other.csv"': "there is no file",
        'file = "../well.csv"': "the name of a file beside",
        'file = "well.csv"\nx = [1]': "either 'file' or",
        "file = 3": "the name of a file beside",
    }
    for line, message in refused.items():
        path.write_text(head + line + "\n")
        with pytest.raises(InputError, match=message):
            vp.load_system(path)
    (tmp_path / "well.csv").write_text("0, 1\n1, inf\n2, 3\n3, 4\n")
    path.write_text(head + 'file = "well.csv"\n')
    with pytest.raises(InputError, match=r"line 2 of well\.csv is not two finite numbers"):
        vp.load_system(path)
    path.write_text(head.replace("[tables.well]", "") + 'tables = { well = { file = "well.csv" } }')
    (tmp_path / "well.csv").write_text("0, 1\n1, 2\n2, 3\n3, 4\n")
    with pytest.raises(InputError, match="on a line below"):
        vp.load_system(path)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("x = [0, 1, 2, 3]\ny = [0, 1, 2]", "x has 4 numbers, but y has 3"),
        ("x = [0, 1, 1, 3]\ny = [0, 1, 2, 3]", "1 follows 1, but x must increase"),
        ("x = [0, 1, 2]\ny = [0, 1, 2]", "has 4 to 10000 points, but this has 3"),
        ("x = [0, 1, 2, inf]\ny = [0, 1, 2, 3]", "x: all numbers must be finite"),
        ("x = [0, 1, 2, 3]\ny = [0, nan, 2, 3]", "y: all numbers must be finite"),
        ("x = [0, 1, 2, 3]", "y: expected a list of numbers"),
        ("x = [0, 1, 2, '3']\ny = [0, 1, 2, 3]", "x: expected a list of numbers"),
        ("x = [0, 1, 2, 3]\ny = [0, 1, 2, 3]\nboundary = 'natural'", "is none of not-a-knot"),
        ("x = [0, 1, 2, 3]\ny = [0, 1, 2, 3]\nboundary = 'periodic'", "begins and ends with"),
        ("x = [0, 1, 2, 3]\ny = [1e308, -1e308, 1e308, 0]", "no spline of finite coefficients"),
        ("x = [0, 1, 2, 3]\ny = [0, 1, 2, 3]\nkind = 'linear'", "unknown key 'kind'"),
    ],
)
def test_refusals(lines, message):
    text = f"state = ['q']\n[vector_field]\nq = 'f(q)'\n[tables.f]\n{lines}\n"
    with pytest.raises(InputError, match=re.escape(message)):
        vp.load_system(text)


@pytest.mark.parametrize("name", ["q", "sin", "j0", "k", "where", "t"])
def test_names_that_are_taken(name):
    text = f"""state = ["q"]
[parameters]
k = 1
[vector_field]
q = "-k*q"
[tables.{name}]
x = [0, 1, 2, 3]
y = [0, 1, 2, 3]
"""
    with pytest.raises(InputError, match=f"'{name}' is (taken|reserved); choose another"):
        vp.load_system(text)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("well(q, p)", "'well' takes one argument"),
        ("well*q", "the function 'well' needs its argument in parentheses"),
        ("wel(q)", "unknown function 'wel'; did you mean 'well'"),
        ("well(3)", "'well' is known from -2 to 2, not at 3"),
    ],
)
def test_wrong_calls(expression, message):
    with pytest.raises(InputError, match=re.escape(message)):
        vp.load_system(WELL.replace("well(q)", expression))
