"""Arguments of models are declared once: check, signature, docstring and options come of them."""

import inspect
import subprocess
import sys

import pytest
import torch

import vpintegrator as vp
from vpintegrator.errors import InputError
from vpintegrator.models import ARCHITECTURES, ClassificationTransformer

CLASSES = [*ARCHITECTURES.values(), ClassificationTransformer]


@pytest.mark.parametrize("architecture", CLASSES)
def test_every_argument_says_what_it_is(architecture):
    parameters = inspect.signature(architecture).parameters
    declared = architecture.Arguments.declared()
    assert list(parameters) == list(declared)
    for name, each in declared.items():
        assert each.metadata["help"], name
        assert f"\n{name} : " in architecture.__doc__
        assert each.default == parameters[name].default or each.default is not None
    assert inspect.signature(architecture.forward).parameters.keys() >= {"self"}


def test_an_unknown_argument_is_one_sentence_with_the_nearest_name():
    with pytest.raises(InputError, match="has no argument 'depht'; did you mean 'depth'"):
        vp.models.VolumePreservingFeedForward(dim=3, depht=2)
    with pytest.raises(InputError, match="VolumePreservingFeedForward needs dim"):
        vp.models.VolumePreservingFeedForward(depth=2)


def test_single_precision_begins_with_the_weights_of_double_precision():
    models = []
    for dtype in (torch.float64, "float32"):
        torch.manual_seed(3)
        models.append(vp.models.StandardTransformer(dim=3, norm="batch", dtype=dtype))
    for double, single in zip(*(model.state_dict().values() for model in models), strict=True):
        assert torch.equal(double.to(single.dtype), single)
    assert all(p.dtype == torch.float32 for p in models[1].parameters())


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
        "import sys\nfrom vpintegrator.cli.architecture import FLAGS\n"
        "from vpintegrator.models.registry import ARCHITECTURES\nARCHITECTURES.descriptions()\n"
        "heavy = {'torch', 'numpy', 'scipy', 'sympy'} & sys.modules.keys()\nassert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("system", "arguments", "name", "why"),
    [
        (
            "duffing",
            {},
            "spff",
            "the system is Hamiltonian in states (q, p), and the map symplectic",
        ),
        ("duffing", {"window": 2}, "spt", "Hamiltonian"),
        ("duffing", {"functions": "polynomial", "bases": 2}, "vpff", "models have no bases"),
        ("duffing", {"time_mixing": True, "window": 2}, "vpt", "models have no time_mixing"),
        ("rigid-body", {}, "vpff", "the flow preserves volume, and so does the map"),
        ("rigid-body", {"window": 2}, "vpt", "the flow preserves volume"),
        ("charged-particle", {}, "vpff", "the flow preserves volume"),
        ("lotka-volterra-2d", {}, "spff", "the system is Hamiltonian"),  # in its chart
        (
            'state = ["x", "y"]\nvector_field = { x = "y", y = "-x - y" }',
            {},
            "resnet",
            "the flow changes volumes",
        ),
        ('measured = true\nstate = ["x", "y"]', {}, "vpff", "measured states are taken for"),
        ('state = ["x"]\nvector_field = { x = "1" }', {}, "resnet", "states of one component"),
    ],
)
def test_what_suits_a_system(system, arguments, name, why):
    system = vp.load_system(system)
    model = vp.models.build(system, **arguments)
    assert model.name == vp.models.suited(system, arguments) == name
    assert model.choices[0].startswith(f"{name} was chosen: ")
    assert why in model.choices[0]
    assert model.choices[0] not in vp.models.build(system, name).choices


def test_what_is_chosen_for_a_system_is_said():
    body = vp.load_system("rigid-body")
    model = vp.models.build(body, "vpt", weighting="skew", depth=1)
    assert len(model.reversing_symmetries) == 2
    assert "2 of the system's 3 reversing symmetries are built in" in model.choices[0]
    with pytest.raises(InputError, match="no skew weighting"):
        vp.models.build(body, "vpt", weighting="skew", reversible=True)
    assert len(vp.models.build(body, reversible=False).reversing_symmetries) == 0
    with pytest.raises(InputError, match="there is no model 'vptt'; did you mean 'vpt'"):
        vp.models.build(body, "vptt")
