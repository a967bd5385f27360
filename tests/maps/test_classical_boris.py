"""The Boris method: closed forms, volume, and what it applies to."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rollout.systems import initial, system
from vpintegrator.compiled import integrate
from vpintegrator.dynamics import load_system
from vpintegrator.errors import InputError
from vpintegrator.maps import METHODS

BORIS = METHODS["boris"]


def planar(v1="v2", v2="-v1", y1="v1"):
    return load_system(
        f'state = ["y1", "y2", "v1", "v2"]\n[vector_field]\ny1 = "{y1}"\ny2 = "v2"\n'
        f'v1 = "{v1}"\nv2 = "{v2}"'
    )


@pytest.mark.parametrize("h", [0.1, 1.0, 5.0])
def test_the_velocity_turns_by_a_known_angle_in_a_uniform_field(h):
    states = integrate(planar(), "boris", [[0.0, 0.0, 1.0, 0.0]], h, 50)[0]
    angle = 2 * math.atan(h / 2) * np.arange(51)
    assert np.allclose(states[:, 2], np.cos(angle), atol=1e-13)
    assert np.allclose(states[:, 3], -np.sin(angle), atol=1e-13)


def test_in_the_plane_it_is_the_same_as_in_space():
    flat, z = system("particle-in-a-trap"), initial("particle-in-a-trap")
    space = load_system(
        'state = ["x1", "x2", "x3", "v1", "v2", "v3"]\n[vector_field]\nx1 = "v1"\nx2 = "v2"\n'
        'x3 = "v3"\nv1 = "-sin(x1) + v2*(1 + x2/2)"\nv2 = "-x2*exp(x1/4) - v1*(1 + x2/2)"\nv3 = "0"'
    )
    embedded = np.zeros((len(z), 6))
    embedded[:, [0, 1, 3, 4]] = z
    result = BORIS.step(space, embedded, 0.4)
    assert np.allclose(result[:, [0, 1, 3, 4]], BORIS.step(flat, z, 0.4), atol=1e-15)
    assert not result[:, [2, 5]].any()


@given(h=st.floats(-2.0, 2.0), seed=st.integers(0, 10**6))
def test_volume_is_exact_at_any_step(h, seed):
    s, z = system("particle-in-space"), initial("particle-in-space", 3, seed)
    assert np.abs(np.linalg.det(BORIS.derivative(s, z, h)) - 1).max() < 1e-13


def test_without_a_magnetic_field_it_is_verlet_and_symplectic():
    s = load_system(
        'state = {q = 2, p = 2}\nhamiltonian = "p[0]**2/2 + p[1]**2/2 + cos(q[0]-q[1])"'
    )
    z = np.random.default_rng(0).normal(size=(4, 4))
    strang = METHODS["strang-splitting"].step(s, z, 0.3)
    assert np.allclose(BORIS.step(s, z, 0.3), strang, rtol=0, atol=1e-15)
    assert BORIS.structure(s).is_symplectic


@pytest.mark.parametrize(
    ("s", "message"),
    [
        (system("rigid-body"), "in rigid-body there are 3 components"),
        (system("coupled-oscillators"), r"the rate of q\[0\] is not p\[0\]"),
        (planar(y1="2*v1"), "the rate of y1 is not v1"),
        (planar(v1="v2**3"), "the rate of v1 is not linear in v2"),
        (planar(v1="-v1/10 + v2"), "the rate of v1 depends on v1 itself"),
        (planar(v2="v1*y1"), "v2 and v1 act on each other with factors not opposite"),
    ],
)
def test_why_it_does_not_apply(s, message):
    with pytest.raises(InputError, match=message + r".*; take another method, such as implicit-m"):
        BORIS.check(s)
