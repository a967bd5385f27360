"""Learned splittings: the methods they begin as, structure, order, units."""

import pytest
import torch

import vpintegrator as vp
from tests.nn.laws import assert_close, randomise, sample
from vpintegrator.dynamics.compositions import FACTORS
from vpintegrator.nn import LearnedSplitting
from vpintegrator.nn.exact_flows import field_parts, hamiltonian_parts

KEPLER = "(z[2]**2 + z[3]**2)/2 - 1/sqrt(z[0]**2 + z[1]**2 + 1)"
COUPLED = "z[2]**2/2 + z[3]**2/(2*(2 + cos(z[0]))) + z[0]**2*cos(z[1])"
TAME = "z[2]**2/20 + z[3]**2/(20*(2 + cos(z[0]))) + cos(z[0])*cos(z[1])/10"
FIELD = ("z[1]*z[2]/2", "-sin(z[2])", "z[0]*z[1]")
STEP = 0.1


EXAMPLES = {
    "splitting": lambda d, T: LearnedSplitting(
        hamiltonian_parts(pendulums(d), d + d % 2), d + d % 2, 2
    ),
    "splitting of a field": lambda d, T: LearnedSplitting(
        field_parts(tuple(f"sin(z[{(i + 1) % d}])/10" for i in range(d))), d, 2
    ),
    "splitting of three parts": lambda d, T: LearnedSplitting(hamiltonian_parts(TAME, 4), 4, 3),
}


def pendulums(dim):
    n = (dim + 1) // 2
    return " + ".join(f"z[{n + i}]**2/2 - cos(z[{i}])" for i in range(n))


def layer(kind, stages=3, step=STEP):
    """One of Hamiltonians and of a vector field."""
    if kind == "field":
        made = LearnedSplitting(field_parts(FIELD), 3, stages)
    else:
        text = COUPLED if kind == "three parts" else KEPLER
        made = LearnedSplitting(hamiltonian_parts(text, 4), 4, stages)
        assert made.commutators.numel() > 0
    made.set_step(step)
    return made


KINDS = ("two parts", "three parts", "field")


@pytest.mark.parametrize(
    ("kind", "system"), [("two parts", "henon-heiles"), ("field", "rigid-body")]
)
@pytest.mark.parametrize("method", ["strang-splitting", "blanes-moan-4", "blanes-moan-6"])
def test_it_begins_as_the_classical_method(kind, system, method):
    own = vp.load_system(system)
    flows = (
        field_parts(tuple(own.field_formulas))
        if kind == "field"
        else hamiltonian_parts(own.hamiltonian_formula, own.dim)
    )
    made = LearnedSplitting(flows, own.dim, len(FACTORS[method]) // 2)
    made.set_step(STEP)
    made.begin_as(FACTORS[method])
    z = sample(5, own.dim, scale=0.4)
    expected = vp.integrate(own, method, z.numpy(), STEP, 1)[:, 1]
    assert_close(made(z), torch.from_numpy(expected), 1e-14)


@pytest.mark.parametrize("kind", KINDS)
def test_random_coefficients_leave_order_two(kind):
    made = randomise(layer(kind, 2), 0.2, 1)
    z = sample(made.dim)
    rates = sum_of_rates(made, z)
    errors = []
    for step in (0.02, 0.01):
        made.set_step(step)
        # a symmetric map differs from the midpoint rule by terms of the third order
        middle = (z + made(z)) / 2
        errors.append((made(z) - z - step * sum_of_rates(made, middle)).norm().item())
    assert rates.norm().item() > 0.1
    assert 6 < errors[0] / errors[1] < 10


def sum_of_rates(made, z):
    """The vector field, by the change over a tiny step of a consistent method."""
    before = float(made.step)
    made.set_step(1e-6)
    found = (made(z) - made.inverse(z)) / 2e-6
    made.set_step(before)
    return found


def test_units_change_nothing():
    made = randomise(layer("three parts"), 0.3, 2)
    z = sample(5, 4)
    expected = made(z)
    shift, scale = sample(4, seed=3), sample(4, seed=4).abs() + 0.5
    made.set_units(shift, scale)
    assert_close(made((z - shift) / scale) * scale + shift, expected, 1e-13)
