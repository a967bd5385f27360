"""Functions of exported C, against NumPy's."""

import math
import re
import subprocess

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vpintegrator.compiled.c_source import literal, write_functions
from vpintegrator.compiled.library import load_library, pointer
from vpintegrator.compiled.scalar_graph import FUNCTIONS

OWN = ("exp", "tanh", "sin", "cos", "log")
DTYPES = {"double": np.float64, "float": np.float32}
SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, 1e300, -1e300, 5e-324, 1e-200, 1e7, 709.9]


@pytest.fixture(scope="module", params=DTYPES)
def functions(request):
    """All functions by their names, of arrays of one of the dtypes."""
    real = request.param
    text = "\n".join(
        [
            "#include <math.h>\n#include <string.h>",
            write_functions(FUNCTIONS, real, "f"),
            *(
                f'extern "C" void apply_{name}({real} *x, int n) {{ f_{name}(x, n); }}'
                for name in FUNCTIONS
            ),
        ]
    )
    library = load_library(text)

    def call(name, values):
        count = -(-len(values) // 16) * 16
        x = np.zeros(count, DTYPES[real])
        x[: len(values)] = values
        getattr(library, f"apply_{name}")(pointer(x), len(values))
        return x[: len(values)]

    return DTYPES[real], call


@pytest.mark.parametrize("name", FUNCTIONS)
def test_they_are_what_they_are_called(functions, name):
    dtype, call = functions
    generator = np.random.default_rng(0)
    values = np.concatenate(
        [generator.normal(size=200) * 10.0**k for k in range(-3, 3)]
        + [np.linspace(-720, 720, 101), generator.uniform(-1, 1, 200)]
    ).astype(dtype)
    with np.errstate(all="ignore"):
        function = np.vectorize(FUNCTIONS[name].value)
        in_doubles = name == "erf"
        expected = function(values.astype(float if in_doubles else np.longdouble)).astype(dtype)
        found = call(name, values)
    usual = np.isfinite(expected) & (np.abs(expected) > np.finfo(dtype).tiny)
    # beyond -708 (-87) exp is 0 and not a number with fewer digits
    error = np.abs(found[usual] - expected[usual]) / np.spacing(np.abs(expected[usual]))
    assert error.max() <= 4
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("special", SPECIAL)
def test_what_is_special_stays_so_and_changes_nothing_beside_it(functions, name, special):
    dtype, call = functions
    values = np.linspace(0.1, 0.9, 11).astype(dtype)
    plain = call(name, values)
    with np.errstate(all="ignore"):
        values[4] = special
        expected = FUNCTIONS[name].value(values[4])
        if name == "exp" and special < -700:
            expected = dtype(0)
    found = call(name, values)
    np.testing.assert_allclose(found[4], expected, rtol=4 * np.finfo(dtype).eps)
    if name == "tanh" and special == 0:
        assert np.signbit(found[4]) == np.signbit(special)
    others = np.arange(11) != 4
    np.testing.assert_allclose(found[others], plain[others], rtol=4 * np.finfo(dtype).eps)


@pytest.mark.parametrize("real", DTYPES)
def test_they_are_c(real):
    text = f"#include <math.h>\n#include <string.h>\n{write_functions(FUNCTIONS, real, 'f')}"
    command = ["gcc", "-std=c99", "-Werror", "-c", "-xc", "-", "-o", "/dev/null"]
    subprocess.run(command, input=text, text=True, check=True)


def test_where_numbers_are_rounded_otherwise_the_library_is_called():
    text = write_functions(("exp", "tanh", "sin"), "double", "f")
    for flag, is_own in (("-O2", True), ("-ffast-math", False)):
        command = ["gcc", "-E", flag, "-xc", "-"]
        output = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
        assert ("f_split_exp" in output.stdout) == is_own


@given(st.floats())
def test_a_literal_has_all_digits(value):
    text = literal(value, "double")
    if math.isnan(value):
        assert text == "NAN"
    elif math.isinf(value):
        assert text in ("INFINITY", "(-INFINITY)")
    else:
        assert re.fullmatch(r"\(-[\d.]+(e[-+]\d+)?\)|[\d.]+(e[-+]\d+)?", text) or value == 0
        assert float(text.strip("()")) == value
        assert {".", "e"} & {*text}  # of C a whole number, else
