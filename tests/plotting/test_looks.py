"""Colours, lines and markers: fixed, distinct, and told apart by colour-blind readers."""

import itertools

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from vpintegrator.plotting.style import CLASSICAL, LEARNED, OTHER
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
TOGETHER = (
    "implicit-midpoint",
    "gauss-legendre-4",
    "rk4",
    "stoermer-verlet",
    "strang-splitting",
    "yoshida-4",
    "dop853",
)


def lab(colour, vision):
    """CIE L*a*b* of a colour as seen with a kind of vision."""
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    x = SRGB @ np.clip(VISION[vision] @ linear, 0, 1) / [0.95047, 1.0, 1.08883]
    f = np.where(x > (6 / 29) ** 3, np.cbrt(x), x / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def test_no_two_methods_look_the_same():
    assert len(set(METHODS) - set(CLASSICAL)) <= len(OTHER)
    every = [*CLASSICAL.values(), *OTHER, *LEARNED]
    assert len({(look.colour, str(look.line)) for look in every}) == len(every)
    assert len({(look.colour, look.marker) for look in every}) == len(every)


@pytest.mark.parametrize("vision", VISION)
def test_methods_drawn_together_are_told_apart(vision):
    colours = [*(CLASSICAL[name].colour for name in TOGETHER), *(k.colour for k in LEARNED[:2])]
    for one, other in itertools.combinations(colours, 2):
        # a difference of about 2 is just noticeable
        assert np.linalg.norm(lab(one, vision) - lab(other, vision)) > 17, (one, other)
