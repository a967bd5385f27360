"""Colours, lines and markers: fixed, distinct in grey and for colour-blind readers."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_rgb

from vpintegrator.plotting.style import LOOKS, looks
from vpintegrator.rollout import METHODS

# Machado, Oliveira, Fernandes, A physiologically-based model for simulation of color vision
# deficiency, IEEE Trans. Visualization and Computer Graphics 15 (2009), severity 1.0
VISION = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
}
SRGB = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)


def lab(colour, vision):
    """CIE L*a*b* of a colour as seen with a kind of vision."""
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    x = SRGB @ np.clip(VISION[vision] @ linear, 0, 1) / [0.95047, 1.0, 1.08883]
    f = np.where(x > (6 / 29) ** 3, np.cbrt(x), x / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def test_twelve_looks_differ_in_grey():
    """In print without colours: by the marker always, by the line or by the lightness, too."""
    assert len(LOOKS) == 12
    assert len({look.marker for look in LOOKS}) == 12
    for one, other in itertools.combinations(LOOKS, 2):
        lightness = [lab(look.colour, "normal")[0] for look in (one, other)]
        assert one.line != other.line or abs(lightness[0] - lightness[1]) > 25, (one, other)


@pytest.mark.parametrize("vision", VISION)
def test_looks_differ_for_colour_blind_readers(vision):
    """A difference of about 2 is just noticeable."""
    for one, other in itertools.combinations(LOOKS, 2):
        difference = np.linalg.norm(lab(one.colour, vision) - lab(other.colour, vision))
        assert difference > (20 if one.line == other.line else 8), (one, other)


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
