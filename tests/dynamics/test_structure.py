"""Structure is said in one type, in words, in JSON and by measurement."""

import numpy as np
import pytest

import vpintegrator as vp
from vpintegrator.dynamics import Structure
from vpintegrator.errors import InputError


def test_of_systems():
    pendulum = vp.load_system("pendulum").structure
    assert pendulum.form == "symplectic" and pendulum.pairs == ((0, 1),)
    assert pendulum.periods == ((0, 2 * np.pi),)
    assert str(pendulum) == "symplectic, 2 reversing symmetries, 1 angle"
    body = vp.load_system("rigid-body").structure
    assert body.form == "volume" and body.words == ("volume-preserving", "reversible")
    crossed = vp.load_system(
        'state = ["x", "px", "y", "py"]\nhamiltonian = "px**2 + py**2 + x**2*y**2"'
    )
    assert crossed.structure.pairs == ((0, 1), (2, 3))
    measured = vp.load_system('state = ["a", "b"]\nmeasured = true\ndivergence_free = false')
    assert measured.structure == Structure() and str(Structure()) == "no structure"


def test_text_and_hash():
    structure = vp.load_system("pendulum").structure
    again = Structure.from_text(structure.text)
    assert again == structure and len({again, structure}) == 1
    for text in ("[1]", "{", '{"form": "round"}', '{"shape": 1}', '{"periods": 3}'):
        with pytest.raises(InputError):
            Structure.from_text(text)


def test_of_models():
    system = vp.load_system("pendulum")
    assert vp.models.build(system).structure.pairs == system.structure.pairs
    assert vp.models.ResidualNetwork(dim=2).structure == Structure()
