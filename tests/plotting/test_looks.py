"""Colours, lines and markers: fixed, and distinct in grey."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from vpintegrator.plotting.style import LOOKS, looks, luminance
from vpintegrator.rollout import METHODS


def test_twelve_looks_differ_in_grey():
    """In print without colours: by the marker always, by the line or by the lightness, too."""
    assert len(LOOKS) == 12
    assert len({look.marker for look in LOOKS}) == 12
    for one, other in itertools.combinations(LOOKS, 2):
        # CIE lightness, from 0 to 100
        lightness = [116 * luminance(look.colour) ** (1 / 3) - 16 for look in (one, other)]
        assert one.line != other.line or abs(lightness[0] - lightness[1]) > 25, (one, other)


def drawn(models, methods):
    runs = [(f"m{k}", "learned", "vpt") for k in range(models)]
    return looks([*runs, *((name, "classical", name) for name in methods)])


@settings(max_examples=50)
@given(st.integers(0, 12), st.lists(st.sampled_from(list(METHODS)), unique=True, max_size=12))
def test_methods_of_a_rollout_have_looks_of_their_own(models, methods):
    found = list(drawn(models, methods).values())
    for dozen in (found[:12], found[12:]):
        assert len({look.marker for look in dozen}) == len(dozen)
    assert len({(look.colour, look.marker) for look in found}) == len(found)
    assert len({(look.colour, str(look.line)) for look in found}) == len(found)


def test_a_classical_method_looks_the_same_in_every_rollout():
    methods = ["implicit-midpoint", "rk4", "stoermer-verlet", "gauss-legendre-4"]
    known = drawn(0, methods)
    for models in (1, 2, 5):
        assert {name: drawn(models, methods[::-1])[name] for name in methods} == known
