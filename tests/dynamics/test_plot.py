"""What a system file says of pictures is checked when it is loaded."""

import re

import numpy as np
import pytest

from vpintegrator import load_system
from vpintegrator.errors import InputError
from vpintegrator.rollout.start import section_plane

FIELD = 'state = ["x", "y", "z"]\n[vector_field]\nx = "y"\ny = "z"\nz = "x"\n'


def test_planes_sphere_section_and_coordinates_are_read():
    text = (
        f'{FIELD}[parameters]\na = 2\n[plot]\nplanes = [["R", "z"], ["x", "y"]]\nequal = true\n'
        'sphere = ["z", "x", "y"]\nsection = "-y = 0.5"\n'
        '[plot.coordinates]\nR = "a*sqrt(x**2 + y**2)"\n'
    )
    system = load_system(text)
    assert (system.plot.planes, system.plot.equal) == ((("R", "z"), ("x", "y")), True)
    assert system.plot.sphere == ("z", "x", "y")
    assert system.plot.section == section_plane(system, "auto") == ("y", 0.5, -1)
    np.testing.assert_allclose(system.coordinates["R"](np.array([[3.0, 4.0, 1.0]])), [10])
    assert load_system(FIELD).plot.planes == ()
    sections = {"tokamak": ("y", 0.0, 1), "henon-heiles": ("q[0]", 0.0, 1), "fput": None}
    assert {name: section_plane(load_system(name), "auto") for name in sections} == sections


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("plane = []", "unknown key 'plane'; did you mean 'planes'?"),
        ('sphere = ["x", "y"]', "expected 3 different names"),
        ('section = "y = nan"', "must be a finite number"),
        ('coordinates = { x = "y" }', "a component has this name"),
    ],
)
def test_mistakes_are_told_in_a_sentence(lines, message):
    with pytest.raises(InputError, match=re.escape(message)):
        load_system(f"{FIELD}[plot]\n{lines}")
