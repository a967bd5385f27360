"""Order of positions and momenta: by the names of the components, in files, functions, models."""

import itertools
import json

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

import vpintegrator as vp

STYLES = {
    "q1, p1": (["q1", "q2"], ["p1", "p2"]),
    "x, px": (["x", "y"], ["px", "py"]),
    "x, p_x": (["x", "y"], ["p_x", "p_y"]),
    "theta, p_theta": (["theta", "phi"], ["p_theta", "p_phi"]),
    "Q, P": (["Q1", "Q2"], ["P1", "P2"]),
    "x, vx": (["x", "y"], ["vx", "vy"]),
    "x1, p1": (["x1", "x2"], ["p1", "p2"]),
    "u, pi_u": (["u1", "u2"], ["pi_u1", "pi_u2"]),
}
HAMILTONIAN = "({2}**2 + {3}**2)/2 + ({0}**2 + {1}**2)/2 + {0}**2*{1} - {1}**3/3 + {0}*{3}**2/9"
SEPARABLE = "({2}**2 + {3}**2)/2 + ({0}**2 + {1}**2)/2 + {0}**2*{1} - {1}**3/3"
ORDERS = list(itertools.permutations(range(4)))


def system_of(style: str, order, hamiltonian: str = HAMILTONIAN) -> vp.System:
    names = [*STYLES[style][0], *STYLES[style][1]]
    state = json.dumps([names[k] for k in order])
    return vp.load_system(f'state = {state}\nhamiltonian = "{hamiltonian.format(*names)}"')


@given(st.sampled_from([*STYLES]), st.sampled_from(ORDERS), st.integers(0, 99))
def test_any_order_of_names_is_the_same_system(style, order, seed):
    usual, other = (system_of(style, each) for each in (range(4), order))
    z = np.random.default_rng(seed).normal(size=(5, 4))
    expected = usual.vector_field(z)[:, order]
    np.testing.assert_allclose(other.vector_field(z[:, order]), expected, rtol=1e-13, atol=1e-13)
    inner = list(other.canonical_order or range(4))
    ordered = [other.components[k] for k in inner]
    assert other.canonical.components == tuple(ordered)
    pairs = dict(zip(*STYLES[style], strict=True))
    assert [pairs[name] for name in ordered[:2]] == ordered[2:]
    found = other.canonical.vector_field(z[:, order][:, inner])
    np.testing.assert_allclose(found, expected[:, inner], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("{ momenta = 2, positions = 2 }", (2, 3, 0, 1)),
        ("{ q = 2, p = 2 }", ()),
        ('["p", "theta"]', (1, 0)),
        ('["u", "v"]', ()),
        ('["q2", "q1", "p1", "p2"]', (0, 1, 3, 2)),
        ('["u", "phi", "s", "L"]', ()),
    ],
)
def test_names_and_arrays_tell_the_order(state, expected):
    system = vp.load_system(f'state = {state}\nhamiltonian = "1"')
    assert system.canonical_order == expected


@pytest.mark.parametrize("text", ["q1 p1 q2 r", "p1 p2 x y", "a q p b", "phi1 J1 phi2 J2"])
def test_names_that_contradict_the_order_are_refused(text):
    names = text.split()
    with pytest.raises(vp.InputError, match="do not say which momentum belongs to which position"):
        vp.load_system(f'state = {json.dumps(names)}\nhamiltonian = "{names[0]}**2"')


def energy(q, p):
    return (p @ p + q @ q) / 2 + q[0] ** 2 * p[1]


def swapped(p, q):
    return energy(q, p)


def timed(momenta, positions, t):
    return energy(positions, momenta) * (1 + t)


@given(st.sampled_from(ORDERS), st.integers(0, 99))
def test_arguments_and_components_of_functions_go_by_their_names(order, seed):
    names = [["x", "y", "px", "py"][k] for k in order]
    usual = vp.System.from_hamiltonian(energy, 2, components=["x", "y", "px", "py"])
    z = np.random.default_rng(seed).normal(size=(4, 4))
    expected = usual.vector_field(z)[:, order]
    assume(names.index("x") < names.index("y"))  # q holds the positions in the state's order
    other = vp.System.from_hamiltonian(swapped, 2, components=names)
    np.testing.assert_allclose(other.vector_field(z[:, order]), expected, atol=1e-12)
    late = vp.System.from_hamiltonian(timed, 2, components=names)
    at_one = np.column_stack([z[:, order], np.ones(4)])
    np.testing.assert_allclose(late.vector_field(at_one)[:, :4], 2 * expected, atol=1e-12)


def test_a_symplectic_map_has_the_order_of_its_names():
    def turn(z):
        x, px, y, py = z
        px, py = px - 0.3 * x - 0.1 * x * y, py - 0.2 * y - 0.05 * x**2
        return x + px, px, y + py, py

    system = vp.System.from_map(turn, components=["x", "px", "y", "py"], structure="symplectic")
    assert system.has_formulas and system.canonical_order == (0, 2, 1, 3)
    np.testing.assert_allclose(system.map(np.ones(4)), turn(np.ones(4)), rtol=1e-14)


def test_a_section_of_interleaved_states_has_its_conjugate_momentum():
    names = ["x", "y", "z", "px", "py", "pz"]
    text = 'state = [{}]\nhamiltonian = "(px**2+py**2+pz**2)/2 + (x**2+2*y**2+3*z**2)/2 + x*y*z"'
    usual, other = (
        vp.return_map(text.format(", ".join(f'"{n}"' for n in order)), "x = 0", energy=0.3)
        for order in (names, ["x", "px", "y", "py", "z", "pz"])
    )
    assert other.components == ("y", "py", "z", "pz") and other.canonical_order == (0, 2, 1, 3)
    z = np.array([[0.1, 0.05, 0.02, 0.03]])
    found = other.map(z[:, [0, 2, 1, 3]])
    np.testing.assert_allclose(found, usual.map(z)[:, [0, 2, 1, 3]], rtol=1e-9)


@pytest.mark.parametrize("order", [(0, 2, 1, 3), (3, 1, 0, 2)])
@pytest.mark.parametrize("name", ["spff", "sgf", "vpff", "split"])
def test_models_of_any_order_step_the_same(name, order):
    system = system_of("x, px", order, SEPARABLE)
    arguments = {} if name == "split" else {"functions": "polynomial", "degree": 3}
    model = vp.models.build(system, name, arguments, seed=0)
    usual = vp.models.build(system.canonical, name, arguments, seed=0)
    z = 0.02 * torch.randn(20, 1, 4, dtype=torch.float64)
    model.set_normalisation(range(4), [1, 2, 2, 1])
    inner = list(system.canonical_order)
    usual.set_normalisation(np.arange(4)[inner], np.array([1, 2, 2, 1])[inner])
    found, expected = model(z)[..., inner], usual(z[..., inner])
    np.testing.assert_allclose(found.detach(), expected.detach(), rtol=1e-13)
    if model.invertible:
        np.testing.assert_allclose(model.inverse(model(z)).detach(), z, atol=1e-12)
