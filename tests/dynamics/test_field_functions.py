"""Which functions a vector field is made of, beside polynomials."""

import numpy as np
import pytest
import torch

from vpintegrator import load_system
from vpintegrator.nn.formulas import Formulas

QUOTIENT = """
state = ["x", "y"]
[vector_field]
x = "y/(1 + x**2) + x**3/(1 + x**2)**3 + log(2 + y)**2 - sqrt(x**2 + 3)/y**2"
y = "x*exp(-2*x*y) + 2**(x - y) - 0.1*sin(x + 1/y) + sqrt(x**2*y)*(2**x)**0.3"
"""


@pytest.mark.parametrize(
    ("name", "functions", "of_hamiltonian"),
    [
        ("rigid-body", [], None),
        ("pendulum", [], []),  # the sine of an angle
        ("double-pendulum", ["(1 + sin(z[0] - z[1])**2)**(-1)"], None),
        ("kepler", ["(z[0]**2 + z[1]**2)**(-1.5)"], ["(z[0]**2 + z[1]**2)**(-0.5)"]),
        ('measured = true\nstate = ["x"]', [], None),
        ('state = ["q", "p"]\nhamiltonian = "p**2/2 - cos(q)"', ["sin(z[0])"], ["cos(z[0])"]),
        ("henon-heiles", [], []),
        ("coupled-oscillators", None, ["sigmoid(z[0])"]),
    ],
)
def test_functions_of_systems_and_of_potentials(name, functions, of_hamiltonian):
    system = load_system(name)
    assert functions in (None, system.functions)
    assert of_hamiltonian in (None, system.hamiltonian_functions)


def test_written_functions_are_those_of_the_equations():
    x, y = np.array([0.3, 0.7, 1.9]), np.array([0.4, 1.3, 2.2])
    expected = [
        1 / (1 + x**2),  # and not its third power
        np.log(2 + y),
        np.sqrt(x**2 + 3),
        y**-2.0,
        np.exp(-2 * x * y),
        2 ** (x - y),
        np.sin(x + 1 / y),
        np.sqrt(x**2 * y),
        (2**x) ** 0.3,
    ]
    formulas = Formulas(load_system(QUOTIENT).functions, 2)
    found = torch.stack(formulas(torch.from_numpy(np.stack([x, y], -1)))).numpy()
    assert len(found) == len(expected)
    for value in expected:
        assert np.abs(found - value).max(axis=1).min() < 1e-14
