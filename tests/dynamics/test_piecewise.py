"""Absolute values, signs, extremes, the error function and where(...) in system files."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import vpintegrator as vp
from vpintegrator.compiled import CompiledMethod
from vpintegrator.dynamics.typeset import equations_latex, equations_unicode
from vpintegrator.errors import InputError
from vpintegrator.maps import METHODS

MEANT = {
    "abs(x)": abs,
    "sign(x)": lambda x: math.copysign(1, x) if x else 0.0,
    "erf(x)": math.erf,
    "min(x, 1, -x)": lambda x: min(x, 1, -x),
    "max(x, 1/2)": lambda x: max(x, 0.5),
    "where(x > 1, 3, x)": lambda x: 3 if x > 1 else x,
    "where(x >= 1, 3, x/2)": lambda x: 3 if x >= 1 else x / 2,
    "where(x < 1, x**2, 7)": lambda x: x**2 if x < 1 else 7,
    "where(x <= 1, x**2, 7)": lambda x: x**2 if x <= 1 else 7,
    "where(-1 < x <= 1, x, 0)": lambda x: x if -1 < x <= 1 else 0,
}


def field(text):
    return vp.load_system(f'state = ["x"]\n[vector_field]\nx = "{text}"\n')


SYSTEMS = {text: field(text) for text in MEANT}


@given(st.sampled_from(sorted(MEANT)), st.floats(-3, 3) | st.sampled_from([-1.0, 0.0, 0.5, 1.0]))
def test_they_mean_what_python_means(text, x):
    system, expected = SYSTEMS[text], MEANT[text](x)
    found = system.vector_field(np.array([x]))
    assert found == pytest.approx([expected], rel=1e-15, abs=1e-15)
    tensor = system.vector_field(torch.tensor([x], dtype=torch.float64))
    assert tensor.numpy() == pytest.approx([expected], rel=1e-14, abs=1e-15)


@given(st.sampled_from(sorted(MEANT)), st.floats(-3, 3))
def test_derivatives_away_from_corners(text, x):
    if min(abs(abs(x) - corner) for corner in (0, 0.5, 1)) < 1e-3:
        return
    function, h = MEANT[text], 1e-5
    expected = (function(x + h) - function(x - h)) / (2 * h)
    found = SYSTEMS[text].jacobian(np.array([x]))
    assert found.ravel() == pytest.approx([expected], rel=1e-6, abs=1e-8)


def test_a_piecewise_oscillator_keeps_its_energy():
    system = vp.load_system(
        """
title = "Oscillator with a stop"
state = ["q", "p"]
parameters = { k = 10 }
hamiltonian = "p**2/2 + q**2/2 + where(q > 1, k*(q - 1)**2/2, 0)"
"""
    )
    assert system.divergence_free
    start = np.array([[0.5, 1.5]])
    states = vp.solve(system, start, np.linspace(0, 20, 201))
    assert states[..., 0].max() > 1
    energy = system.invariants["energy"](states)
    assert np.abs(energy - energy[:, :1]).max() < 1e-9
    for method in ("stoermer-verlet", "implicit-midpoint"):
        found = vp.integrate(system, method, start, 0.01, 100)
        assert np.abs(found[:, -1] - states[:, 10]).max() < 1e-3


def test_they_are_typeset():
    text = "where(-1 < x <= 1, x, 0)"
    assert rf"\dot{{x}} &= \texttt{{{text}}}" in equations_latex(SYSTEMS[text])
    assert equations_unicode(SYSTEMS[text]) == f"ẋ = {text}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x > 1", "'x > 1' is not allowed"),
        ("where(x, 1, 2)", "write where"),
        ("where(x == 1, 1, 2)", "a comparison is one of"),
        ("where(x > 1, 1)", "write where"),
    ],
)
def test_mistakes_are_told(text, message):
    with pytest.raises(InputError, match=message):
        field(text)


@pytest.mark.parametrize("name", ["rk4", "yoshida-4"])
def test_machine_code_of_signs_and_choices(name):
    system = vp.load_system(
        'state = ["q", "p"]\n'
        'hamiltonian = "p**2/2 + abs(q) + where(q <= -1/2, q**2, 0) + max(q, 1)*sign(q + 1)"\n'
    )
    z = np.random.default_rng(0).uniform(-1.5, 1.5, (40, 2))
    z[:3] = [[0.0, 0.0], [-0.5, 0.0], [1.0, 0.0]]
    method = METHODS[name]
    expected = next(vp.classical(method, system, 0.1).advance(z[:, None], 30))
    machine = next(CompiledMethod(method, system, z, 0.1).advance(z[:, None], 30))
    np.testing.assert_allclose(machine, expected, atol=1e-13)
    unknown = CompiledMethod(method, system, z, 0.1).advance(np.array([[[np.nan, 1.0]]]), 2)
    assert np.isnan(next(unknown)).any()
