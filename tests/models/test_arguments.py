"""Arguments of models: typed keywords, checked and stored as they are given."""

import copy
import inspect
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

import vpintegrator as vp
from vpintegrator.errors import InputError
from vpintegrator.models import ARCHITECTURES, ClassificationTransformer
from vpintegrator.models.stored import arguments_of
from vpintegrator.overview import described

CLASSES = [*ARCHITECTURES.values(), ClassificationTransformer]


@pytest.mark.parametrize("architecture", CLASSES)
def test_every_argument_says_what_it_is(architecture):
    words = described(architecture)
    assert list(words) == list(inspect.signature(architecture).parameters)
    assert all(words.values())
    assert all(kinds != (Any,) for kinds, _, _ in arguments_of(architecture).values())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dim": 3.5}, "dim must be an integer, not 3.5"),
        ({"dim": 3, "depth": True}, "depth must be an integer, not True"),
        ({"dim": 3, "depth": 0}, "depth = 0 must be a whole number, at least 1"),
        ({"dim": 3, "functions": "splines"}, "functions must be one of neurons, polynomial"),
        ({"dim": 3, "explicit_time": "no"}, "explicit_time must be true or false, not 'no'"),
        ({"dim": 3, "initial_scale": float("nan")}, "initial_scale must be a finite number"),
    ],
)
def test_values_of_another_kind_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        vp.models.VolumePreservingFeedForward(**arguments)


def test_stored_arguments_are_what_the_class_was_called_with():
    class Own(vp.models.VolumePreservingFeedForward):
        def __init__(self, dim: int, *, gain: float = 1.0, rhos=(), angles: dict | None = None):
            super().__init__(dim, depth=1)

    rhos = [torch.diag(torch.tensor([1.0, -1.0])), np.eye(2)]
    assert Own(2).arguments == {"dim": 2, "gain": 1.0}
    model = Own(dim=2, gain=np.float32(0.5), rhos=rhos, angles={1: 3.0})
    stored = {"rhos": [each.tolist() for each in rhos], "angles": [[1, 3.0]]}
    assert model.arguments == {"dim": 2, "gain": 0.5, **stored}
    assert copy.deepcopy(model).arguments == model.arguments
    with pytest.raises(TypeError):
        Own(gian=2)


DRAWN = {"vpt": 240.74032279, "vpff": 352.175156073, "vpmt": 562.222926048}
DRAWN |= {"transformer": 181.408878608, "resnet": 159.715261218}


@pytest.mark.parametrize("name", DRAWN)
def test_a_seed_gives_the_weights_that_it_always_gave(name):
    """Layers draw in the same order: a training that is repeated begins where it began."""
    torch.manual_seed(5)
    weights = ARCHITECTURES[name](dim=4).parameters()
    assert sum(float(p.detach().abs().sum()) for p in weights) == pytest.approx(DRAWN[name])


def test_declarations_need_no_torch():
    code = (
        "import sys\nfrom vpintegrator.cli.train import main\n"
        "from vpintegrator.models.registry import ARCHITECTURES\n[*ARCHITECTURES]\n"
        "heavy = {'torch', 'numpy', 'scipy', 'sympy'} & sys.modules.keys()\nassert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


SYMPLECTIC, VOLUME = "the map is symplectic", "the volume of states is kept"
DAMPED = 'state = ["x", "y"]\nvector_field = { x = "y", y = "-x - y" }'
ONE = 'state = ["x"]\nvector_field = { x = "1" }'


@pytest.mark.parametrize(
    ("system", "arguments", "name", "why"),
    [
        ("duffing", {}, "spff", SYMPLECTIC),
        ("duffing", {"window": 2}, "spt", SYMPLECTIC),
        ("duffing", {"functions": "polynomial", "bases": 2}, "vpff", "models have no bases"),
        ("duffing", {"time_mixing": True, "window": 2}, "vpt", "models have no time_mixing"),
        ("rigid-body", {}, "vpff", VOLUME),
        ("rigid-body", {"window": 2}, "vpt", VOLUME),
        ("charged-particle", {}, "vpff", VOLUME),
        ("lotka-volterra-2d", {}, "spff", SYMPLECTIC),  # in its chart
        (DAMPED, {}, "resnet", "the flow changes volumes"),
        ('measured = true\nstate = ["x", "y"]', {}, "vpff", VOLUME),
        (ONE, {}, "resnet", "states of one component"),
    ],
)
def test_what_suits_a_system(system, arguments, name, why):
    system = vp.load_system(system)
    model = vp.models.build(system, arguments=arguments)
    assert model.name == vp.models.suited(system, arguments) == name
    assert model.choices[0].startswith(f"{name} was chosen: ") and why in model.choices[0]
    assert model.choices[0] not in vp.models.build(system, name).choices


def test_what_is_chosen_for_a_system_is_said():
    body = vp.load_system("rigid-body")
    model = vp.models.build(body, "vpt", {"weighting": "skew", "depth": 1})
    assert len(model.reversing_symmetries) == 2
    assert "2 of the system's 3 reversing symmetries are built in" in model.choices[0]
    with pytest.raises(InputError, match="no skew weighting"):
        vp.models.build(body, "vpt", {"weighting": "skew"}, reversible=True)
    assert len(vp.models.build(body, reversible=False).reversing_symmetries) == 0
    with pytest.raises(InputError, match="there is no model 'vptt'; did you mean 'vpt'"):
        vp.models.build(body, "vptt")
