"""What a system file says of pictures is checked when it is loaded."""

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
    assert system.plot.planes == (("R", "z"), ("x", "y"))
    assert system.plot.equal
    assert system.plot.sphere == ("z", "x", "y")
    assert system.plot.section == section_plane(system, "auto") == ("y", 0.5, -1)
    np.testing.assert_allclose(system.coordinates["R"](np.array([[3.0, 4.0, 1.0]])), [10])
    assert load_system(FIELD).plot.planes == ()


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("plane = []", "unknown key 'plane'; did you mean 'planes'?"),
        ("planes = 3", "planes: expected a list, found 3"),
        ('sphere = ["x", "y"]', "expected 3 different names"),
        ('section = "y = nan"', "must be a finite number"),
        ('coordinates = { x = "y" }', "a component has this name"),
        ("coordinates = { R = true }", "expected an expression in quotes"),
    ],
)
def test_mistakes_are_told_in_a_sentence(lines, message):
    with pytest.raises(InputError) as found:
        load_system(f"{FIELD}[plot]\n{lines}")
    assert message in str(found.value)
    assert str(found.value).isprintable()


def test_sections_are_made_by_themselves_where_they_mean_something():
    assert section_plane(load_system("tokamak"), "auto") == ("y", 0.0, 1)
    assert section_plane(load_system("henon-heiles"), "auto") == ("q[0]", 0.0, 1)
    assert section_plane(load_system("fput"), "auto") is None  # of 30 dimensions
    assert section_plane(load_system("pendulum"), "auto") is None
