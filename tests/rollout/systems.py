"""Systems that the tests of this folder share."""

from functools import cache

import numpy as np

from vpintegrator.dynamics import System, load_system

BLOW_UP = """
state = ["x", "y"]
divergence_free = false
[vector_field]
x = "x**2"
y = "-y"
[defaults]
step = 0.1
"""

MIXED = """
state = ["q", "p"]
hamiltonian = "p**2*(1 + q**2)/2 + q**2/2"
"""

DOMAIN = """
state = ["x", "y"]
[vector_field]
x = "sqrt(y)"
y = "-1"
"""


@cache
def system(name: str) -> System:
    return load_system(name)


def initial(name: str, count: int = 5, seed: int = 0) -> np.ndarray:
    return system(name).sample_initial(count, np.random.default_rng(seed))
