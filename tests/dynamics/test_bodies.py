"""Symmetries of bodies: those declared hold, and what does not hold is refused with a sentence."""

import pickle
import re
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vpintegrator.catalogue import SYSTEMS, catalogue
from vpintegrator.dynamics import Bodies, load_system
from vpintegrator.dynamics.body_identities import reach
from vpintegrator.errors import InputError

MOVED = '[[symmetry]]\ntranslate = ["q"]\n'
TURNED = '[[symmetry]]\nrotate = ["q", "p"]\ndimension = 2\n'
EXCHANGED = '[[symmetry]]\npermute = ["q", "p"]\n'
CHAIN = """
state = {q = "n", p = "n"}
hamiltonian = "sum(p[i]**2/2 for i in range(n)) + sum(exp(q[i] - q[i + 1]) for i in range(n - 1))"
[parameters]
n = 8
"""
PLANE = """
state = {q = "2*len(m)", p = "2*len(m)"}
hamiltonian = \"\"\"
sum((p[2*j]**2 + p[2*j + 1]**2)/(2*m[j]) for j in range(len(m)))
+ sum(((q[2*j] - q[2*k])**2 + (q[2*j + 1] - q[2*k + 1])**2)**2
for j in range(len(m)) for k in range(j))\"\"\"
[parameters]
m = [1, 2, 1, 2]
"""


catalogued = cache(load_system)


def texts():
    return [(name, file.read_text()) for name, file in catalogue(SYSTEMS).items()]


def plane(table, dimension=2):
    return f"{PLANE}{table}dimension = {dimension}\n"


def walls(n, left="q[0]**4", right="q[n - 1]**4", springs="(q[i] - q[i + 1])**4"):
    """A chain of the potential x**4, whose force is odd, as it is at a wall."""
    kinetic = "sum(p[i]**2/2 for i in range(n))"
    return (
        f'state = {{q = "n", p = "n"}}\n'
        f'hamiltonian = "{kinetic} + {left} + {right} + sum({springs} for i in range(n - 1))"\n'
        f'[parameters]\nn = {n}\n{EXCHANGED}along = "walls"\n'
    )


def test_bodies_of_the_catalogue():
    declaring = [name for name, text in texts() if "[[symmetry]]" in text]
    found = {name: catalogued(name).bodies for name in declaring}
    assert found == {
        "kepler": Bodies(1, 2, species=(0,), rotations=True),
        "three-body": Bodies(3, 2, "pairs", (0, 0, 0), translations=True, rotations=True),
        "outer-solar-system": Bodies(
            6, 3, "pairs", (0, 1, 2, 3, 4, 5), translations=True, rotations=True
        ),
        "toda": Bodies(8, 1, "ring", (0,) * 8, translations=True),
        "lennard-jones-chain": Bodies(8, 1, "chain", (0,) * 8, translations=True),
        "fput": Bodies(15, 1, "walls", (0,) * 15),
        "linear-wave": Bodies(31, 1, "walls", (0,) * 31),
    }


@pytest.mark.parametrize("name", ["toda", "fput", "linear-wave", "lennard-jones-chain"])
@pytest.mark.parametrize("n", [2, 3, 5, 17])
def test_any_number_of_bodies(name, n):
    bodies = load_system(name, n=n).bodies
    assert (bodies.count, bodies.species) == (n, (0,) * n)


def test_like_bodies_have_equal_parameters():
    assert load_system(plane(EXCHANGED + 'like = "m"\n')).bodies.species == (0, 1, 0, 1)
    assert load_system("three-body", m=[2, 1, 1]).bodies.species == (0, 1, 1)
    assert load_system(plane(EXCHANGED), m=[3, 3]).bodies.species == (0, 0)
    with pytest.raises(InputError, match="permute: "):  # not components, but vectors
        load_system(PLANE + EXCHANGED, m=[3, 3])


def test_symmetries_in_words():
    moved = "all bodies moved by the same"
    assert load_system("three-body").bodies.symmetries == [
        moved,
        "all vectors turned together in the plane",
        "like bodies exchanged",
    ]
    turned = "all vectors turned together in space"
    assert load_system("outer-solar-system").bodies.symmetries == [moved, turned]
    assert load_system("toda").bodies.symmetries == [moved, "all bodies moved on along a ring"]


def test_bodies_travel_with_the_system():
    system = load_system("toda", n=5)
    assert pickle.loads(pickle.dumps(system)).bodies == system.bodies


@given(st.integers(0, 2**32 - 1), st.sampled_from(["three-body", "outer-solar-system"]))
def test_vector_fields_have_the_symmetries(seed, name):
    """The law itself in doubles: f commutes with rotations, and translations leave it."""
    system = catalogued(name)
    n, d = system.bodies.count, system.bodies.dimension
    random = np.random.default_rng(seed)
    turn = np.linalg.qr(random.normal(size=(d, d)))[0]
    turn *= np.sign(np.linalg.det(turn)) if d % 2 else 1
    z = random.normal(size=(2, n, d))
    f = system.vector_field(z.reshape(-1)).reshape(2, n, d)
    turned = system.vector_field((z @ turn.T).reshape(-1)).reshape(2, n, d)
    size = 1e-9 * np.abs(f).max()
    np.testing.assert_allclose(turned, f @ turn.T, atol=size)
    moved = system.vector_field((z + np.array([1, 0])[:, None, None]).reshape(-1))
    np.testing.assert_allclose(moved.reshape(2, n, d), f, atol=size)


DEVIATION = r"fails by [\d.e+-]+ at q\[0\] = "


@pytest.mark.parametrize(
    ("text", "claim"),
    [
        (f"{CHAIN.replace('exp(', 'q[0]*exp(')}{MOVED}", "translate: f(q + shift, p) = f(q, p)"),
        (plane(TURNED, "").replace("dimension = \n", "").replace("**2)**2", "**4)"), "rotate: "),
        (plane(EXCHANGED), "permute: f, where like bodies are exchanged,"),
        (f'{CHAIN}{EXCHANGED}along = "ring"', "along = ring: f, where all bodies move on"),
        (f'{CHAIN.replace("p[i]**2/2", "(i + 1)*p[i]**2")}{EXCHANGED}along = "chain"', "chain: f,"),
        (f'{CHAIN.replace("exp(", "(1 + i)*exp(")}{EXCHANGED}along = "chain"', "along = chain: f"),
        (f'{CHAIN}{EXCHANGED}along = "walls"', "along = walls: f at the left end"),
        (walls(8, right="2*q[n - 1]**4"), "along = walls: f at the right end"),
        (walls(8, left="0"), "along = walls: f at the left end"),
        (walls(3, left="2*q[0]**4"), "along = walls: f at the left end"),
        (walls(3, springs="(1 + i)*(q[i] - q[i + 1])**4"), "along = walls: f, where a pattern"),
    ],
)
def test_what_is_no_symmetry_is_refused(text, claim):
    """With the largest deviation and where; rows too short to tell are tried at a larger length."""
    with pytest.raises(InputError, match=f"{re.escape(claim)}.*{DEVIATION}") as caught:
        load_system(text)
    assert len(str(caught.value).splitlines()) == 1


def test_bodies_that_all_see_each_other_are_no_row():
    text = CHAIN.replace("exp(q[i] - q[i + 1])", "(sum(q[j] for j in range(n)))**2")
    with pytest.raises(InputError, match="15 places away, too far for a row of 16"):
        load_system(f'{text}{EXCHANGED}along = "chain"')


def test_a_row_of_two_places_reach():
    second = "+ sum((q[i] - q[i + 2])**4 for i in range(n - 2))"
    text = CHAIN.replace('range(n - 1))"', f'range(n - 1)) {second}"')
    assert load_system(f'{text}{EXCHANGED}along = "chain"', n=4).bodies.topology == "chain"


@given(st.integers(1, 9), st.integers(1, 3), st.sampled_from(["ring", "chain"]), st.data())
def test_reach_is_that_of_the_farthest_body_seen(n, d, topology, data):
    """Chosen pairs of bodies act on each other by one of their components."""
    body, part = st.integers(0, n - 1), st.integers(0, d - 1)
    pairs = data.draw(st.lists(st.tuples(body, body, part), max_size=4))
    terms = [f"(q[{j * d + c}] - q[{k * d + c}])**2" for j, k, c in pairs if j != k]
    system = load_system(
        f'state = {{q = {n * d}, p = {n * d}}}\nhamiltonian = "{" + ".join(["p[0]**2", *terms])}"'
    )
    away = [abs(j - k) for j, k, _ in pairs]
    expected = [min(k, n - k) if topology == "ring" else k for k in away]
    assert reach(system.equations, Bodies(n, d, topology)) == max(expected, default=0)


def test_a_row_in_which_everything_depends_on_everything_is_refused_at_once():
    text = CHAIN.replace("exp(q[i] - q[i + 1])", "(sum(q[j] for j in range(n)))**2")
    with pytest.raises(InputError, match="199 places away"):
        load_system(f'{text.replace("n = 8", "n = 200")}{EXCHANGED}along = "chain"')


@pytest.mark.parametrize("n", [2, 3, 8])
def test_walls_that_are_walls(n):
    assert load_system(walls(n)).bodies.topology == "walls"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"symmetry = 3\n{CHAIN}", "write each symmetry as a table [[symmetry]]"),
        (f"{CHAIN}[[symmetry]]\n", "[[symmetry]] 1: expected one of translate, rotate, permute"),
        (f'{CHAIN}{MOVED}permute = ["q", "p"]', "1: expected one of translate, rotate, permute"),
        (f"{CHAIN}{MOVED}{MOVED}", "[[symmetry]] 2: translate is given twice"),
        (f'{CHAIN}[[symmetry]]\ntranslate = ["p"]', "write translate = [\"q\"], not ['p']"),
        (f'{CHAIN}[[symmetry]]\npermute = ["q"]', 'write permute = ["q", "p"], not [\'q\']'),
        (f"{CHAIN}[[symmetry]]\npermute = 5", 'write permute = ["q", "p"], not 5'),
        (f"{CHAIN}{MOVED}dimension = 3", "q has 8 components, which are no vectors of 3"),
        (f"{CHAIN}{MOVED}dimension = true", "no vectors of True"),
        (f"{CHAIN}{TURNED.replace('2', '4')}", "dimension = 2 or 3, not 4"),
        (f"{CHAIN}{MOVED}{TURNED}", "2: all symmetries are of bodies of the same dimension"),
        (f'{CHAIN}{MOVED}along = "ring"', "along belongs to permute, not to translate"),
        (f'{CHAIN}{EXCHANGED}along = "line"', "along: expected ring, chain, walls, found 'line'"),
        (f'{CHAIN}{EXCHANGED}like = "n"\nalong = "ring"', "give like or along, not both"),
        (f'{CHAIN}{EXCHANGED}like = "m"', "like: there is no parameter 'm'"),
        (f'{CHAIN}{EXCHANGED}like = "n"', "the parameter n must hold a number for each of 8"),
        (f"{CHAIN}{EXCHANGED}like = [1]", "like: there is no parameter [1]"),
        (f"{CHAIN}{MOVED}length = 2", "unknown key 'length'"),
        ('state = ["q", "p"]\nhamiltonian = "p**2"\n' + MOVED, "need a state of two arrays"),
    ],
)
def test_mistakes_in_symmetries(text, message):
    with pytest.raises(InputError, match=re.escape(message)):
        load_system(text)


def test_what_was_measured_is_believed():
    text = f'measured = true\nstate = {{q = 4, p = 4}}\n{EXCHANGED}along = "ring"'
    assert load_system(text).bodies == Bodies(4, 1, "ring", (0,) * 4)
