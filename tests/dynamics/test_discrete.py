"""Maps by formula: what their files say is checked, and they are iterated as they say."""

import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import vpintegrator as vp
from vpintegrator.dynamics.typeset import equations_unicode
from vpintegrator.errors import InputError

KICKED = """
title = "Standard map, a half drift on either side of its kick"
state = ["q", "p"]
symplectic = true
divergence_free = true
periodic = { q = "2*pi" }
parameters = { K = 0.9 }
map = [{ q = "q + p/2" }, { p = "p + K*sin(q)" }, { q = "q + p/2" }]
reversing_symmetry = [{ p = "-p" }]
initial_conditions = { distribution = "uniform", low = -1, high = 1 }
[defaults]
steps = 5
"""
ROTATION = """
state = ["x", "y"]
symplectic = true
parameters = { a = 0.3 }
invariants = { radius = "x**2 + y**2" }
[map]
x = "x*cos(a) - y*sin(a)"
y = "x*sin(a) + y*cos(a)"
"""
RING = """
title = "Ring of coupled standard maps"
state = { q = "n", p = "n" }
iterations = "2*n"
parameters = { n = 3, K = 0.3, c = 0.1 }
[[map]]
p = "p[i] + K*sin(q[i]) + c*sin(q[(i+1) % n] - q[i]) - c*sin(q[i] - q[(i-1) % n])"
[[map]]
q = "q[i] + p[i]"
"""


def test_stages_are_applied_in_turn_and_their_values_assigned_at_once():
    z = np.random.default_rng(0).normal(size=(4, 7, 2))
    kicked, rotation = vp.load_system(KICKED), vp.load_system(ROTATION, a=0.4)
    middle = z[..., 0] + z[..., 1] / 2
    p = z[..., 1] + 0.9 * np.sin(middle)
    assert np.allclose(kicked.map(z), np.stack([middle + p / 2, p], -1), atol=1e-15)
    turned = z @ np.array([[np.cos(0.4), np.sin(0.4)], [-np.sin(0.4), np.cos(0.4)]])
    assert np.allclose(rotation.map(z), turned, atol=1e-15)
    assert kicked.map(torch.from_numpy(z)).numpy() == pytest.approx(kicked.map(z), abs=1e-15)


def test_iterations_make_one_step():
    once, often = vp.load_system(RING.replace('"2*n"', "1")), vp.load_system(RING)
    z = np.random.default_rng(0).normal(size=(5, 6))
    states = vp.solve(once, z, np.arange(7))
    assert np.array_equal(often.map(z), states[:, 6])
    assert vp.load_system(RING, n=4).equations.iterations == 8


def test_what_a_map_is():
    system = vp.load_system(KICKED)
    assert system.is_discrete and system.is_canonical and system.divergence_free
    assert not system.is_hamiltonian and not system.is_measured
    assert system.kind == "symplectic map"
    assert system.defaults == {"step": 1.0, "steps": 5}
    assert system.functions == [] and system.conserved == []
    assert vp.load_system(RING).is_canonical  # found, where nothing is claimed
    again = pickle.loads(pickle.dumps(system))
    assert np.array_equal(again.map(np.ones(2)), system.map(np.ones(2)))
    assert "stage 2:\np′ = K⋅sin(q) + p" in equations_unicode(system)
    ring = equations_unicode(vp.load_system(RING, n=5))
    assert "q[i] → q[i] + p[i]\n10 times in one step" in ring


@given(st.integers(0, 10**6), st.floats(-3, 3))
@settings(max_examples=20, deadline=None)
def test_the_derivative_is_that_of_the_map_and_keeps_the_form(seed, strength):
    system = vp.load_system(RING, K=strength)
    z = np.random.default_rng(seed).uniform(-1, 1, (3, 6))
    found, shift = system.map_jacobian(z), 1e-6 * np.eye(6)[:, None]
    slopes = np.moveaxis((system.map(z + shift) - system.map(z - shift)) / 2e-6, 0, -1)
    size = np.abs(found).max()
    assert np.allclose(found, slopes, rtol=1e-5, atol=1e-5 * size)
    form = np.kron([[0, 1], [-1, 0]], np.eye(3))
    assert np.allclose(found.swapaxes(1, 2) @ form @ found, form, atol=1e-13 * size**2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('state = ["q", "p"]\nsymplectic = true\nmap = { q = "2*q" }', "that the form dq dp is"),
        (KICKED + "step = 0.1", r"\[defaults\] step: a step of a map is one iteration"),
        ('time = "t"\n' + KICKED, "'time' goes with hamiltonian"),
        ('iterations = 2\nstate = ["q", "p"]\nhamiltonian = "p**2"', "goes with map"),
        ('state = ["q", "p"]\nmap = { q = "1/(q - q)" }', "division by zero"),
    ],
)
def test_what_does_not_hold_is_refused(text, message):
    with pytest.raises(InputError, match=message):
        vp.load_system(text)


def test_what_needs_a_vector_field_refuses_in_a_sentence():
    system = vp.load_system(KICKED)
    for name in ("vector_field", "jacobian", "divergence"):
        with pytest.raises(InputError, match=r"needs a vector field, but .* is a map"):
            getattr(system, name)(np.ones(2))
    with pytest.raises(InputError, match="is no map"):
        vp.load_system("pendulum").map(np.ones(2))
    with pytest.raises(InputError, match="has 2 components"):
        system.map(np.ones(3))


def test_solve_counts_iterations():
    system = vp.load_system(KICKED)
    z = np.array([[1.0, 0.5], [0.1, 0.2]])
    states = vp.solve(system, z, np.array([2, 3, 7]))
    assert np.array_equal(states[:, 0], z)
    assert np.array_equal(states[:, 1], system.map(z))
    with pytest.raises(InputError, match="whole numbers"):
        vp.solve(system, z, np.array([0, 0.5]))
    escaping = vp.load_system('state = ["x"]\nmap = { x = "x**2" }')
    with pytest.raises(InputError, match=r"the iterates of .* from \(2\) end at iteration 10"):
        vp.solve(escaping, np.array([[0.5], [2.0]]), np.arange(20))


def test_parameters_may_be_left_open():
    varied = vp.load_system(KICKED).with_open(["K"])
    z, strengths = np.random.default_rng(0).normal(size=(5, 2)), np.linspace(0, 1, 5)
    images = varied.iteration(parameters=strengths[:, None])(z)
    for state, strength, image in zip(z, strengths, images, strict=True):
        assert vp.load_system(KICKED, K=strength).map(state) == pytest.approx(image, abs=1e-15)
