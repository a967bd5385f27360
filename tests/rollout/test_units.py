"""Measurements in any units: the scale of each component, and masses, change rounding alone."""

import re

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import vpintegrator as vp
from tests.rollout.diagnostics.linear_models import linear_model
from tests.rollout.systems import as_map
from vpintegrator.rollout.diagnostics import (
    log_determinant,
    lyapunov_spectrum,
    reversibility_defect,
    symplecticity_defect,
    window_symplecticity_defect,
)

EXPONENT = st.floats(-30, 30)
FIELD = {"x": "y*z/2 + 0.3*y", "y": "-x*z - 0.3*x + 0.1*z", "z": "x*y/2 - 0.1*y"}
STATES = np.array([[1.0, 0.5, 0.3], [0.2, 1.0, 0.4], [-0.3, 0.2, 1.0]])
METHODS = ["implicit-midpoint", "gauss-legendre-4", "rk4"]


def field(scales):
    """A divergence-free field with a reversing symmetry, for components in other units."""
    units = {name: repr(float(scale)) for name, scale in zip("xyz", scales, strict=True)}
    lines = ['state = ["x", "y", "z"]', "[vector_field]"]
    for name, formula in FIELD.items():
        text = re.sub("[xyz]", lambda found: f"({found[0]}/{units[found[0]]})", formula)
        lines.append(f'{name} = "{units[name]}*({text})"')
    return vp.load_system("\n".join([*lines, "[[reversing_symmetry]]", 'y = "-y"']))


def oscillator(mass, length=1.0):
    """A nonlinear oscillator of frequency 1, for masses and lengths in any units."""
    return vp.load_system(f"""
    state = ["q", "p"]
    hamiltonian = "p**2/(2*{mass!r}) + {mass!r}*(q**2/2 + q**4/(4*{length!r}**2))"
    [[reversing_symmetry]]
    p = "-p"
    [initial_conditions]
    distribution = "uniform"
    low = [{-length!r}, {-mass * length!r}]
    high = [{length!r}, {mass * length!r}]
    """)


def measured(system, initial, methods=METHODS):
    report = vp.compare(None, methods, system=system, initial=initial, step=0.1, steps=40)
    return {
        name: {
            "phase space": run.volume["phase-space"].log_determinant,
            "map": run.volume["step"].log_determinant,
            "exponent": run.lyapunov.exponent,
            "reversibility": run.reversibility,
            "symplecticity": run.symplecticity or 0.0,
        }
        for name, run in report.runs.items()
    }


def assert_alike(found, expected):
    for name, values in expected.items():
        for what, value in values.items():
            assert np.abs(found[name][what] - value).max() < 1e-10, (name, what)


@given(st.tuples(EXPONENT, EXPONENT, EXPONENT))
@settings(max_examples=3)
def test_any_scale_of_each_component(exponents):
    scales = 10.0 ** np.array(exponents)
    expected = measured(field(np.ones(3)), STATES)
    assert_alike(measured(field(scales), STATES * scales), expected)
    assert expected["implicit-midpoint"]["reversibility"] < 1e-14
    assert expected["rk4"]["reversibility"] > 1e-9


@given(EXPONENT, st.floats(-15, 15))
@settings(max_examples=2)
def test_any_mass_and_length(mass, length):
    mass, length = 10.0**mass, 10.0**length
    states = np.array([[0.3, 0.5], [0.9, -0.1], [0.5, 0.0]])
    methods = [*METHODS, "stoermer-verlet"]
    expected = measured(oscillator(1.0), states, methods)
    found = measured(oscillator(mass, length), states * [length, mass * length], methods)
    assert_alike(found, expected)
    for name in ("implicit-midpoint", "gauss-legendre-4", "stoermer-verlet"):
        assert found[name]["symplecticity"] < 1e-14
    assert found["rk4"]["symplecticity"] > 1e-8


@given(st.tuples(EXPONENT, EXPONENT))
@settings(max_examples=3)
def test_maps_of_windows(exponents):
    """A linear map of windows, which is neither symplectic nor reversible."""
    generator, scales = np.random.default_rng(0), 10.0 ** np.array(exponents)
    matrix = np.eye(6) + 0.3 * generator.normal(size=(6, 6))
    windows = generator.normal(size=(20, 3, 2))

    def values(scales):
        units = np.tile(scales, 3)
        model = linear_model(matrix * units[:, None] / units, 2, 0.1)
        flow = as_map(model, oscillator(float(scales[1] / scales[0]), float(scales[0])))
        return [
            log_determinant(flow, windows * scales),
            window_symplecticity_defect(flow, windows * scales),
            symplecticity_defect(flow, windows * scales),
            reversibility_defect(flow, windows * scales, flow.system.reversing_symmetries),
            lyapunov_spectrum(flow, (windows * scales)[:2], 20).exponent,
        ]

    for found, expected in zip(values(scales), values(np.ones(2)), strict=True):
        assert np.allclose(found, expected, rtol=1e-10, atol=1e-10)
