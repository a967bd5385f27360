"""Systems that the tests of this folder share."""

from copy import copy
from dataclasses import replace
from functools import cache

import numpy as np

import vpintegrator as vp
from vpintegrator.dynamics import System, load_system

BLOW_UP = """
state = ["x", "y"]
divergence_free = false
vector_field = { x = "x**2", y = "-y" }
defaults = { step = 0.1 }
"""
MIXED = """
state = ["q", "p"]
hamiltonian = "p**2*(1 + q**2)/2 + q**2/2"
"""
DOMAIN = """
state = ["x", "y"]
vector_field = { x = "sqrt(y)", y = "-1" }
"""
TEXTS = {
    # divergence-free, and no rate depends on its own component
    "abc-flow": """
state = ["x", "y", "z"]
divergence_free = true
initial_conditions = { distribution = "uniform", low = -2, high = 2 }
[vector_field]
x = "sin(z) + 0.6*cos(y)"
y = "0.8*sin(x) + cos(z)"
z = "0.6*sin(y) + 0.8*cos(x)"
""",
    # divergence-free, but rates depend on their own components
    "self-dependent": """
state = ["x", "y", "z"]
divergence_free = true
initial_conditions = { distribution = "uniform", low = -0.8, high = 0.8 }
[vector_field]
x = "sin(x)*cos(y)*cos(z) + 0.5*z"
y = "0.3*cos(y)*sin(z) - 0.4*x"
z = "0.5*x - 0.3*sin(y)*cos(z) - cos(x)*cos(y)*sin(z)"
""",
    # a particle in a magnetic field of any direction
    "particle-in-space": """
state = ["x1", "x2", "x3", "v1", "v2", "v3"]
divergence_free = true
initial_conditions = { distribution = "uniform", low = -0.7, high = 0.7 }
[vector_field]
x1 = "v1"
x2 = "v2"
x3 = "v3"
v1 = "-x1 + v2*(1 + x1**2/2) - v3*sin(x1)"
v2 = "-x2*cos(x3) + v3*(x2 + 0.3) - v1*(1 + x1**2/2)"
v3 = "0.2 - x3 + v1*sin(x1) - v2*(x2 + 0.3)"
""",
    "particle-in-a-trap": """
state = ["x1", "x2", "v1", "v2"]
divergence_free = true
initial_conditions = { distribution = "uniform", low = -0.7, high = 0.7 }
[vector_field]
x1 = "v1"
x2 = "v2"
v1 = "-sin(x1) + v2*(1 + x2/2)"
v2 = "-x2*exp(x1/4) - v1*(1 + x2/2)"
""",
    # equations that depend on time: separable with two degrees of freedom and time in both parts,
    "forced": """
state = { q = 2, p = 2 }
time = "t"
period = "2*pi"
hamiltonian = '''(p[0]**2 + p[1]**2/2)*(1 + 0.3*sin(t))/2 + (q[0] - q[1])**4/4 + q[0]**2/2
- 0.4*q[0]*cos(t) + 0.2*q[1]**2*sin(2*t)'''
initial_conditions = { distribution = "uniform", low = -0.8, high = 0.8 }
""",
    # swept and not separable, divergence-free, a particle
    "swept": """
state = ["q", "p"]
time = "s"
hamiltonian = "(1 + q**2/4)*p**2/2 - cos(q) - 0.3*q*sin(s + s**2/4)"
initial_conditions = { distribution = "uniform", low = -0.8, high = 0.8, s = [0, 3] }
""",
    "forced-self-dependent": """
state = ["x", "y", "z"]
time = "t"
divergence_free = true
initial_conditions = { distribution = "uniform", low = -0.8, high = 0.8, t = [0, 3] }
[vector_field]
x = "sin(x)*cos(y)*cos(z)*cos(t) + 0.5*z"
y = "0.3*cos(y)*sin(z) - 0.4*x + 0.2*sin(2*t)"
z = "0.5*x - 0.3*sin(y)*cos(z) - cos(x)*cos(y)*sin(z)*cos(t)"
""",
    "particle-in-a-wave": """
state = ["x1", "x2", "v1", "v2"]
time = "t"
divergence_free = true
initial_conditions = { distribution = "uniform", low = -0.7, high = 0.7, t = [0, 3] }
[vector_field]
x1 = "v1"
x2 = "v2"
v1 = "-sin(x1 - t) + v2*(1 + x2*cos(2*t)/2)"
v2 = "-x2*exp(x1/4) - v1*(1 + x2*cos(2*t)/2)"
""",
}


@cache
def system(name: str) -> System:
    return System(TEXTS[name], name) if name in TEXTS else load_system(name)


def initial(name: str, count: int = 5, seed: int = 0) -> np.ndarray:
    return system(name).sample_initial(count, np.random.default_rng(seed))


# every function that a file can name
FUNCTIONS = """
state = ["x", "y"]
[vector_field]
x = "sin(x) + cos(y)*tan(x/4) + exp(-x**2) + log(2 + y**2) + sqrt(1 + x**2) + (1 + x**2)**(-3/2)"
y = "tanh(x - y) + sigmoid(3*y) + atan2(y, 3 + x**2) + (2 + cos(x))**y + 1/(1 + y**4) - 2*y/3"
"""


def ensemble_of(*arguments, **options):
    """The ensemble of a comparison of one map, which each of its diagnostics is given."""
    ensembles = []

    class Keep(vp.rollout.diagnostics.Diagnostic):
        def result(self):
            ensembles.append(self.ensemble)
            return {}

    vp.compare(*arguments, diagnostics=[Keep], **options)
    return ensembles[0]


def as_map(method, system=None, step=None):
    """The map of a method, or of a model that knows its system and step."""
    if not isinstance(method, vp.Map):
        return vp.classical(method, system, step)
    other = copy(method)
    other.system = system
    if step is not None:
        other.origin = replace(other.origin, step=step)
    return other
