"""The functions of the kernel, on vectors of every width, against many digits."""

import ctypes
import platform
import shutil

import mpmath
import numpy as np
import pytest

from vpintegrator.compiled.library import load_library
from vpintegrator.compiled.scalar_graph import FUNCTIONS
from vpintegrator.compiled.source import prelude

WIDTHS = ["", "-mno-avx512f", "-mno-avx"] if platform.machine() == "x86_64" else [""]
NAMES = {
    FUNCTIONS[name].source: name for name in ("sin", "cos", "tan", "log", "sqrt", "exp", "tanh")
}
FUNCTION = """
extern "C" void apply_{0}(real *x, long count) {{
    for (long i = 0; i < count; i += LANES) {{
        vector v;
        memcpy(&v, x + i, sizeof v);
        v = {0}(v);
        memcpy(x + i, &v, sizeof v);
    }}
}}
"""


@pytest.fixture(scope="module", params=WIDTHS)
def computed(request):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CXX", f"{shutil.which('c++')} {request.param}".strip())
        libraries = {
            dtype: load_library(
                "\n".join([prelude(real, narrow=False), *map(FUNCTION.format, NAMES)])
            )
            for dtype, real in ((np.float64, "double"), (np.float32, "float"))
        }

    def values(name, x):
        y = np.array(x)
        count = ctypes.c_long(len(y))
        getattr(libraries[y.dtype.type], f"apply_{name}")(ctypes.c_void_p(y.ctypes.data), count)
        return y

    return values


def arguments(name, count=800):
    generator = np.random.default_rng(0)
    if name in ("logarithm", "square_root"):
        wide = 10.0 ** generator.uniform(-300, 300, count)
        return np.concatenate([wide, generator.uniform(0.5, 2, count)])
    if name in ("exponential", "hyperbolic_tangent"):
        return generator.uniform(-30, 30, count)
    sizes = 10.0 ** generator.uniform(-8, 5.9, count)
    near = np.round(generator.uniform(-1000, 1000, count)) * np.pi / 2
    return np.concatenate([sizes * generator.choice([-1, 1], count), near])


@pytest.mark.parametrize("name", NAMES)
def test_accurate_to_units_in_the_last_place(computed, name):
    x = arguments(name)
    with mpmath.workprec(200):
        exact = [getattr(mpmath, NAMES[name])(mpmath.mpf(float(v))) for v in x]
        error = [
            float(mpmath.mpf(float(v)) - e) for v, e in zip(computed(name, x), exact, strict=True)
        ]
    units = np.abs(error) / np.spacing(np.abs(np.array(exact, dtype=float)))
    assert units.max() < (4 if name == "tangent" else 3)


@pytest.mark.parametrize("name", NAMES)
def test_limits_and_numbers_of_single_precision(computed, name):
    limits = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-310, -1.0, 1.0, 1e7, 1e300, 1.5, 2, 3, 4, 5, 6]
    with np.errstate(all="ignore"):
        found, expected = computed(name, limits), getattr(np, NAMES[name])(limits)
        assert np.allclose(found, expected, rtol=1e-14, atol=0, equal_nan=True)
        x = np.abs(arguments(name)[-800:]).astype(np.float32)
        expected = getattr(np, NAMES[name])(x.astype(float))
    assert np.allclose(computed(name, x), expected, rtol=1e-5, atol=1e-6)
