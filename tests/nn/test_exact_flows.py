"""Parts of equations with exact flows: their sum, commutators, the linear part, the time."""

import pytest
import sympy
import torch

import vpintegrator as vp
from tests.nn.laws import assert_close, sample
from vpintegrator.nn.exact_flows import field_parts, hamiltonian_parts

ELASTIC = "z[2]**2/2 + z[3]**2/(2*z[0]**2) + 3*(z[0] - 1)**2 - z[0]*cos(z[1])"
ROTATING = "(z[2]**2 + z[3]**2)/2 + z[1]*z[2] - z[0]*z[3] - 1/sqrt(z[0]**2 + z[1]**2 + 1)"
DRIVEN = "z[1]**2/2 - cos(z[0])*(1 + sin(z[2])/3)"


def rates(parts, z):
    """The sum of the parts' vector fields at z (state, dim)."""
    found = torch.zeros_like(z)
    for part in parts:
        values = part.rates(*z.unbind(-1))
        for i, value in zip(part.moved, values, strict=False):
            found[:, i] += value
    return found


HAMILTONIAN = ["henon-heiles", "toda", "coupled-oscillators", "two-waves"]


@pytest.mark.parametrize("system", [*HAMILTONIAN, "rigid-body", "abc-flow", "charged-particle"])
def test_parts_add_up_to_the_vector_field(system):
    own = vp.load_system(system)
    if own.is_hamiltonian:
        explicit_time = own.explicit_time is not None
        flows = hamiltonian_parts(own.hamiltonian_formula, own.phase_dim, explicit_time)
    else:
        flows = field_parts(tuple(own.field_formulas))
    z = sample(20, own.dim, scale=0.3) + (0.0 if own.is_hamiltonian else 0.5)
    assert_close(rates(flows.parts, z), torch.from_numpy(own.vector_field(z.numpy())), 1e-12)
    assert flows.symplectic == own.is_hamiltonian
    for part in flows.parts:
        assert not {*part.moved} & {*part.read}


def test_no_part_reads_what_it_moves():
    for text, size in ((ELASTIC, 4), (ROTATING, 4), (DRIVEN, 2)):
        parts = hamiltonian_parts(text, size, explicit_time=text == DRIVEN).parts
        assert not any({*part.moved} & {*part.read} for part in parts)
        assert text != ELASTIC or [part.moved for part in parts] == [(0, 3), (1, 2), (2, 3)]


def test_commutators_are_those_of_sympy():
    """{V, {T, V}} of a kinetic energy with masses, up to its sign the force weighted by these."""
    x, y, p, q = sympy.symbols("x y p q")
    kinetic, potential = p**2 / 2 + q**2 / 3, sympy.exp(x) * y**2 + x * y**3

    def bracket(f, g):
        pairs = ((x, p), (y, q))
        return sum(f.diff(a) * g.diff(b) - f.diff(b) * g.diff(a) for a, b in pairs)

    further = bracket(potential, bracket(kinetic, potential))
    text = "z[2]**2/2 + z[3]**2/3 + exp(z[0])*z[1]**2 + z[0]*z[1]**3"
    _, part = hamiltonian_parts(text, 4).parts
    assert part.functions == 2
    z = sample(4, 4)
    forces = [sympy.lambdify((x, y), -further.diff(by))(*z[:, :2].T.numpy()) for by in (x, y)]
    for found, expected in zip(part.rates(*z.unbind(-1))[2:], forces, strict=True):
        assert_close(found, torch.from_numpy(expected), 1e-12)


def test_the_time_moves_with_a_part_that_does_not_read_it():
    first, second = hamiltonian_parts(DRIVEN, 2, explicit_time=True).parts
    assert (first.moved, second.moved) == ((0, 2), (1,))
    both = "z[1]**2/2*(1 + z[2]) - cos(z[0])*(1 + z[2])"
    time, *others = hamiltonian_parts(both, 2, explicit_time=True).parts
    assert time.moved == (2,)
    assert time.rates(0, 0, 0) == [1.0]
    assert [part.moved for part in others] == [(0,), (1,)]
