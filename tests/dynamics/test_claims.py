"""Claims: judged in the domain of the states, of maps to the rounding of decimals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vpintegrator as vp
from vpintegrator.errors import InputError

# a rotation with friction where x > c, which breaks the three claims there and nowhere else
CLAIMS = {
    "divergence_free": "divergence_free = true",
    "invariants": 'invariants = { radius = "x**2 + y**2" }',
    "reversing_symmetries": 'reversing_symmetry = [{ y = "-y" }]',
}
FRICTION = {
    "where": "where(x > c, k, 0)",
    "abs": "k*(abs(x - c) + x - c)",
    "tail": "k*sigmoid(200*(x - c))",
    "bump": "k*exp(-20*(x - c - 0.5)**2)",
}


def load_text(friction, claim, low, high, c, k):
    return vp.load_system(f"""
state = ["x", "y"]
{CLAIMS.get(claim, "")}
parameters = {{ c = {c!r}, k = {k!r} }}
vector_field = {{ x = "y", y = "-x - y*{FRICTION[friction]}" }}
initial_conditions = {{ distribution = "uniform", low = {list(low)}, high = {list(high)} }}
defaults = {{ step = 0.5, steps = 20 }}
""")


def make_of_function(friction, claim, low, high, c, k):
    def recorded(t, z):
        x, y = z
        return np.array([y, -x - k * y * (abs(x - c) + x - c)])

    def called(t, z):
        x, y = z
        return np.array([y, -x - (k * y if x > c else 0.0)])

    claims = {
        "divergence_free": {"divergence_free": True},
        "invariants": {"invariants": {"radius": lambda z: z[0] ** 2 + z[1] ** 2}},
        "reversing_symmetries": {"reversing_symmetries": [[1, -1]]},
    }
    function = recorded if friction == "abs" else called
    return vp.System.from_function(
        function, 2, ["x", "y"], sample=(low, high), step=0.5, **claims.get(claim, {})
    )


@pytest.mark.parametrize("way", [load_text, make_of_function])
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_claims_are_judged_in_the_domain(way, data):
    """A claim that fails somewhere in the box is refused; one that fails outside is accepted."""
    centre = np.array(data.draw(st.tuples(*[st.floats(-3, 3)] * 2)))
    half = np.array(data.draw(st.tuples(*[st.floats(0.3, 2)] * 2)))
    low, high = tuple((centre - half).tolist()), tuple((centre + half).tolist())
    friction, claim = data.draw(st.sampled_from([*FRICTION])), data.draw(st.sampled_from([*CLAIMS]))
    k, part = data.draw(st.floats(0.1, 10)), data.draw(st.floats(0.0, 0.85))
    inside = low[0] + part * (high[0] - low[0])
    farthest = np.hypot(*np.maximum(np.abs(low), np.abs(high)))  # of the circles that orbits are
    outside = float(farthest) + data.draw(st.floats(2, 10))
    with pytest.raises(InputError, match=r"at x = .*, y = "):
        way(friction, claim, low, high, inside, k)
    assert way(friction, claim, low, high, outside, k).dim == 2
    assert not way(friction, None, low, high, inside, k).divergence_free
    assert way(friction, None, low, high, outside, k).divergence_free


@pytest.mark.parametrize(
    ("way", "low", "high", "c", "k"),
    [
        # friction behind the box, where orbits from the box lead, and in a corner of the box
        (load_text, (-1.0, 1.0), (0.5, 2.0), 0.8, 1.0),
        (make_of_function, (-1.0, 1.0), (0.5, 2.0), 0.8, 1.0),
        (load_text, (-1.0, -0.01), (1.0, 0.01), 0.9999, 2.0),
    ],
)
def test_claims_are_judged_along_orbits_and_in_corners(way, low, high, c, k):
    with pytest.raises(InputError, match=f"divergence of the vector field is -{k:.0f}"):
        way("where", "divergence_free", low, high, c, k)


def test_a_claim_of_a_domain_with_logarithms_is_judged_there():
    text = """
state = ["u", "v"]
vector_field = { u = "u*(v - 2) + where(u < 0, 1, 0)", v = "v*(1 - u)" }
invariants = { energy = "log(u) - u + 2*log(v) - v" }
initial_conditions = { distribution = "uniform", low = 0.5, high = 2.0 }
"""
    assert "energy" in vp.load_system(text).invariants
    anywhere = text.replace(" + where(u < 0, 1, 0)", "").split("initial_conditions")[0]
    assert "energy" in vp.load_system(anywhere).invariants  # by analytic continuation
    for wrong in (text.replace("u < 0", "u < 1"), anywhere.replace("2*log(v)", "3*log(v)")):
        with pytest.raises(InputError, match="energy: this is not constant"):
            vp.load_system(wrong)


# cos and sin of 2 pi 0.2618, rounded to doubles: the determinant is 1 to 1e-16
C, S = float(np.cos(2 * np.pi * 0.2618)), float(np.sin(2 * np.pi * 0.2618))


def ring(claim="", c=C, s=S):
    return f"""
state = ["x", "px"]
{claim}
[map]
x = "{c!r}*x + {s!r}*(px - 0.1*x**2)"
px = "-{s!r}*x + {c!r}*(px - 0.1*x**2)"
"""


@pytest.mark.parametrize("claim", ["symplectic = true", "divergence_free = true", ""])
def test_the_form_is_judged_to_the_rounding_of_decimals(claim):
    system = vp.load_system(ring(claim))
    assert system.divergence_free and system.is_canonical
    assert not vp.load_system(ring(c=0.9)).divergence_free
    with pytest.raises(InputError, match=r"the form dq dp is kept fails by \d.*e-\d+.* at x = "):
        vp.load_system(ring("symplectic = true", c=round(C, 6)))
