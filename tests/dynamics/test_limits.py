"""Files from strangers: whatever they ask for, the answer comes at once, and is a sentence."""

import numpy as np
import pytest

from vpintegrator.dynamics import InitialConditions, load_system
from vpintegrator.dynamics.typeset import equations_latex, equations_unicode
from vpintegrator.errors import InputError
from vpintegrator.storage.toml import MAXIMUM_SIZE


def field(x, more=""):
    return f'state = ["x", "y"]\n[vector_field]\nx = """{x}"""\ny = "x"\n{more}'


def nested(functions, times):
    return "(".join(functions * times) + "(x" + ")" * (len(functions) * times)


@pytest.mark.parametrize(
    "expression",
    [
        nested(["sin"], 90),
        nested(["tan", "tanh", "sin", "cos", "sigmoid"], 15),
        "1/(y + " * 80 + "x" + ")" * 80,
        "**".join(["(2 + sin(x))"] * 5),
        "*".join(f"(x + {i}*y)" for i in range(100)),
        "sin(10**299)*x",
        "x**(1/3)*x**(1/7)*x**0.12345678901234",
        "sum(x/(i + 1)**40 for i in range(500))",
        "exp(-exp(-exp(-exp(-exp(x)))))",
    ],
)
def test_formulas_that_look_bad_and_are_not(expression):
    system = load_system(field(expression))
    with np.errstate(all="ignore"):
        assert system.vector_field(np.full((3, 2), 0.3)).shape == (3, 2)
        assert system.jacobian(np.full((3, 2), 0.3)).shape == (3, 2, 2)
    assert "ẋ" in equations_unicode(system)
    assert "\\dot{x}" in equations_latex(system)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (field("sum(x for i in range(1000000000))"), "column 1: .*more than 300000"),
        (field("9**999*9**999"), "column 1: this constant is too large"),
        (field("9" * 15_000), "column 15001: '9999.* is not a valid expression"),
        (".".join("a" * 50_000) + " = 1", "a key has more than 16 dots"),
        (field("tan(pi/2)"), "column 1: this constant is too large, or no real number"),
        ("state = {q = 4096, p = 4096}\nhamiltonian = 'q[0]'", "more than 4096 components"),
        ("x = 1\n" * 200_000, f"more than the {MAXIMUM_SIZE} of a description"),
        ("a = " + "[" * 50_000, "not valid TOML"),
        ('"' + "a" * 50_000 + '" = 1', "unknown key"),
        (field("y", f"[parameters]\n{'a' * 200} = 1"), "at most 100 characters"),
        ('title = "a\\u001b[31mb"\n' + field("y"), "which terminals obey"),
        (field("y", '[invariants]\n"a\\u202eb" = 0'), "which terminals obey"),
    ],
)
def test_files_that_are_refused(text, message):
    with pytest.raises(InputError, match=message) as caught:
        load_system(text + "\n")
    assert len(str(caught.value)) < 2000 and str(caught.value).isprintable()


def test_a_description_has_lines():
    text = 'description = """Two\nlines\tof Fermi–Pasta and 李"""\n' + field("y")
    assert load_system(text).description.startswith("Two\nlines")


@pytest.mark.parametrize(
    ("title", "name"), [("../../etc/passwd", "etc-passwd"), ("C:\\\\x", "c-x"), ("..", "system")]
)
def test_a_name_made_of_a_title_leads_to_no_other_folder(title, name):
    assert load_system(f'title = "{title}"\n' + field("y")).name == name


BODY = load_system("rigid-body")


@pytest.mark.parametrize(
    "table",
    [
        [],
        {"distribution": "points", "points": [[1e308, 1, "9**999"]]},
        {"distribution": "formula", "random": {"a": {"low": 0, "high": 1, "length": 1e99}}}
        | {"state": {"z1": 0, "z2": 0, "z3": 0}},
        {"distribution": "uniform", "low": "sum(1 for i in range(999999999))", "high": 1},
    ],
)
def test_initial_conditions_that_are_refused(table):
    with pytest.raises(InputError, match=r"\[initial_conditions\]"):
        InitialConditions(BODY, table, "test")
