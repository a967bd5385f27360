"""Systems: derived functions against oracles, claims that are checked, mistakes that are told."""

import json
import pickle
from functools import cache

import numpy as np
import pytest
import torch

from vpintegrator.dynamics import list_systems, load_system
from vpintegrator.dynamics.typeset import (
    equations_latex,
    equations_unicode,
    invariants_latex,
    invariants_unicode,
    symmetries_unicode,
)
from vpintegrator.errors import InputError

CHAIN = """
title = "Periodic chain"
state = {q = "n", p = "n"}
hamiltonian = "sum(p[i]**2/2 + (q[(i+1)%n]-q[i])**2/2 + a*(q[(i+1)%n]-q[i])**3/3 for i in range(n))"
[parameters]
n = 3
a = 0.25
[invariants]
momentum = "sum(p[i] for i in range(n))"
[[reversing_symmetry]]
p = "-p[i]"
"""


@cache
def catalogued(name):
    return load_system(name)


@pytest.fixture(params=list_systems())
def system(request):
    return catalogued(request.param)


@pytest.fixture
def flow(system):
    if system.is_discrete:
        pytest.skip("a map, see test_discrete.py")
    return system


def states(system, *shape):
    count = int(np.prod(shape))
    drawn = system.sample_initial(count, np.random.default_rng(7))
    return drawn.reshape(*shape, system.dim)


def assert_close(found, expected, rtol=1e-13):
    """Equal but for rounding, relative to the largest value."""
    scale = max(1.0, np.abs(expected).max(initial=0))
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * scale)


def test_numpy_and_torch_agree(flow):
    z = states(flow, 3, 5)
    t = torch.tensor(z)
    # two libraries may round a sine differently in the last digit
    assert_close(flow.vector_field(t).numpy(), flow.vector_field(z))
    assert_close(flow.jacobian(t).numpy(), flow.jacobian(z))
    for invariant in flow.invariants.values():
        assert invariant(z).shape == (3, 5)
        assert_close(invariant(t).numpy(), invariant(z))
    by_component = flow.vector_field_by_component(np.moveaxis(z, -1, 0))
    np.testing.assert_array_equal(np.moveaxis(by_component, 0, -1), flow.vector_field(z))
    by_component = flow.jacobian_by_component(np.moveaxis(z, -1, 0))
    np.testing.assert_array_equal(np.moveaxis(by_component, (0, 1), (-2, -1)), flow.jacobian(z))


def test_jacobian_is_the_derivative(flow):
    z = torch.tensor(states(flow, 6))
    expected = torch.func.vmap(torch.func.jacrev(flow.vector_field))(z)
    assert_close(flow.jacobian(z).numpy(), expected.numpy())
    trace = expected.numpy().trace(axis1=-2, axis2=-1)
    np.testing.assert_allclose(flow.divergence(z.numpy()), trace, atol=1e-13 * expected.abs().max())


def test_hamiltons_equations(system):
    if not system.is_hamiltonian:
        with pytest.raises(InputError, match="has no Hamiltonian"):
            system.hamiltonian(states(system, 1))
        return
    z = torch.tensor(states(system, 6))
    gradient = torch.func.vmap(torch.func.grad(system.hamiltonian))(z)
    q, p = gradient[:, : system.phase_dim].chunk(2, -1)  # but for the time
    expected = torch.cat([p, -q], -1)
    assert_close(system.vector_field(z)[:, : system.phase_dim].numpy(), expected.numpy())


@pytest.mark.parametrize("given", [np.float32(2.5), np.int64(3), np.array([1.0, 2.5])])
def test_numbers_of_numpy_are_parameters(given):
    name = "m" if given.ndim else "k"
    system = load_system("coupled-oscillators", **{name: given})
    assert system.parameters[name] == json.loads(json.dumps(system.definitions))[name]
    assert system.parameters[name] == given.tolist()
    z = states(system, 3)
    again = pickle.loads(pickle.dumps(system))
    np.testing.assert_array_equal(again.vector_field(z), system.vector_field(z))


@pytest.mark.parametrize("value", [np.float64("nan"), True, [[1.0]]])
def test_what_is_no_parameter(value):
    with pytest.raises(InputError, match=r"rigid-body, .*I1: .*expected "):
        load_system("rigid-body", I1=value)


def test_long_systems_are_shown_as_they_are_written():
    chain = load_system(CHAIN, n=10)
    text = "sum(p[i]**2/2 + (q[(i+1)%n]-q[i])**2/2 + a*(q[(i+1)%n]-q[i])**3/3 for i in range(n))"
    assert equations_unicode(chain, 200) == f"H = {text}"
    assert max(map(len, equations_unicode(chain, 60).splitlines())) <= 60
    assert invariants_unicode(chain) == "energy = H\nmomentum = sum(p[i] for i in range(n))"
    assert r"H &= \texttt{sum(p[i]**2/2 + (q[(i+1)\%n]" in equations_latex(chain)


def test_every_system_is_typeset(system):
    for text in (equations_unicode(system, 80), invariants_unicode(system, 80)):
        # products may be too long to break, but not pages long
        assert all(len(line) <= 100 for line in text.splitlines())
    assert equations_latex(system).count("&=") >= 1
    assert len(symmetries_unicode(system)) == len(system.reversing_symmetries)
    assert invariants_latex(system).keys() == system.invariants.keys()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("p[i] for", "i*p[i] for", r"\[invariants\] momentum: this is not constant"),
        ('p = "-p[i]"', 'p = "p[i]"', "reversing_symmetry.* 1: this does not reverse"),
        ('q = "n"', "q = 2.5", "the length of 'q'"),
        ("[parameters]", "divergence_free = false\n[parameters]", "the file says false, but H"),
    ],
)
def test_mistakes_in_a_file(old, new, message):
    assert old in CHAIN
    with pytest.raises(InputError, match=message):
        load_system(CHAIN.replace(old, new))


def test_lengths_of_arrays_set_others():
    """A list of masses says how many bodies there are."""
    text = """
    state = {q = "len(m)", p = "len(m)"}
    hamiltonian = "sum(p[i]**2/(2*m[i]) + q[i]**2/2 for i in range(len(m)))"
    parameters = { m = [1, 2] }
    """
    assert load_system(text).dim == 4
    system = load_system(text, m=[1, 2, 4])
    assert system.vector_field([0, 0, 0, 1.0, 1, 1]).tolist() == [1, 0.5, 0.25, 0, 0, 0]
    with pytest.raises(InputError, match=r"state, column 5: 'len' takes the name of an array"):
        load_system(text.replace('q = "len(m)"', 'q = "len(k)"').replace("len(k)", "1 + len(k)"))


def test_functions_of_constants_are_numbers():
    """cos(pi/32) and its like do not become nested roots, and claims about them still hold."""
    text = """
    state = {q = "n", p = "n"}
    hamiltonian = "sum(p[i]**2 + (4*sin(pi*(i + 1)/(2*n + 2))**2)*q[i]**2 for i in range(n))/2"
    parameters = { n = 31 }
    invariants = { third = "p[2]**2 + (2 - 2*cos(3*pi/(n + 1)))*q[2]**2" }
    """
    assert "third" in load_system(text).invariants
    with pytest.raises(InputError, match="third: this is not constant"):
        load_system(text.replace("cos(3*pi/", "cos(3.000000000000001*pi/"))


def test_a_path_may_hold_any_character(tmp_path):
    folder = tmp_path / "k=3"
    folder.mkdir()
    for name in ("a=1.toml", "a=1"):
        (folder / name).write_text(CHAIN)
        assert load_system(str(folder / name)).name == "a=1"
    with pytest.raises(InputError, match=r"there is no file .*k=4/a\.toml"):
        load_system(str(tmp_path / "k=4" / "a.toml"))
    path = tmp_path / "binary.toml"
    path.write_bytes(b"\xff\xfe\x00")
    for place in (path, tmp_path):
        with pytest.raises(InputError, match=r"cannot read .*; give a TOML file"):
            load_system(place)


ROTOR = """
state = { q = 2, p = 2 }
periodic = { q = ["2*pi/k", 0] }
hamiltonian = "(p[0]**2 + p[1]**2)/2 - cos(k*q[0]) + q[1]**4"
parameters = { k = 3 }
"""


def test_angles_are_declared_with_their_periods():
    assert load_system(ROTOR).periods == pytest.approx({0: 2 * np.pi / 3}, rel=1e-15)
    assert load_system(ROTOR, k=1).periods == {0: 2 * np.pi}
    assert load_system("abc-flow").periods == dict.fromkeys(range(3), 2 * np.pi)
    assert load_system("rigid-body").periods == {}


@pytest.mark.parametrize(
    ("periodic", "message"),
    [
        ('{ q = ["3*pi/k", 0] }', r"\[periodic\]: the vector field changes by .* turn by"),
        ('{ q = "p[0]" }', "a period is a positive number"),
        ("3", "periodic: expected a table"),
    ],
)
def test_mistakes_in_periods(periodic, message):
    with pytest.raises(InputError, match=message):
        load_system(ROTOR.replace('{ q = ["2*pi/k", 0] }', periodic))
