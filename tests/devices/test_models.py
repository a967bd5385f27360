"""Every architecture on a device, and models of all kinds."""

import copy

import numpy as np
import pytest
import torch

import vpintegrator as vp
from tests.devices.same import assert_same, assert_same_map
from tests.models.cases import needed
from tests.models.test_charts import LOGARITHMS, POLAR
from tests.nn.laws import SIGN_FLIPS, randomise, sample
from vpintegrator.models import ARCHITECTURES
from vpintegrator.models.growth import prolong
from vpintegrator.models.stored import arguments_of

SIZES = {"depth": 1, "width": 4, "attention_width": 2, "heads": 2, "inner": 3, "degree": 2}
SMALL = {  # arguments of each architecture
    name: {"dim": 4, **needed(name)}
    | {key: size for key, size in SIZES.items() if key in arguments_of(architecture)}
    for name, architecture in ARCHITECTURES.items()
}
FLIP = np.diag([1.0, 1, -1, -1]).tolist()
POLYNOMIAL = {"functions": "polynomial", "degree": 3, "depth": 1}


MODELS = {
    **{name: (name, arguments) for name, arguments in SMALL.items()},
    "reversible": ("vpff", {"dim": 4, "reversing_symmetries": [FLIP], **POLYNOMIAL}),
    "reversible windows": ("vpt", {"dim": 3, "reversing_symmetries": SIGN_FLIPS, "depth": 1}),
    "reversible form": ("spff", {"dim": 4, "reversing_symmetries": [FLIP], "width": 4}),
    "bases": ("vpff", {"dim": 3, "bases": 2, **POLYNOMIAL}),
    "angles": ("spff", {"dim": 2, "periodic": [(0, 6.0)], **POLYNOMIAL}),
    "formulas": ("spff", {"dim": 4, "expressions": ["sin(z[0]*z[1])"], **POLYNOMIAL}),
    "logarithms": ("vpff", {"dim": 2, **LOGARITHMS, **POLYNOMIAL}),
    "polar": ("vpff", {"dim": 2, **POLAR, "periodic": [(1, 2 * np.pi)], **POLYNOMIAL}),
    "explicit_time": ("vpff", {"dim": 3, "explicit_time": True, **POLYNOMIAL}),
    "explicit time of neurons": ("spff", {"dim": 5, "explicit_time": True, "width": 4}),
    "conserved": ("vpff", {"dim": 4, "conserved": [2, 3], **POLYNOMIAL}),
    "window with fewer new": ("vpt", {"dim": 3, "window": 3, "prediction_window": 1}),
}


def built(name):
    architecture, arguments = MODELS[name]
    torch.manual_seed(0)
    coordinates = {k: v for k, v in arguments.items() if "chart" in k}
    arguments = {k: v for k, v in arguments.items() if k not in coordinates}
    model = ARCHITECTURES[architecture](**arguments)
    if coordinates:
        model.set_coordinates(**coordinates)
    randomise(model.core, 0.1, 1)
    if model.explicit_time:
        model.set_advance(0.1)
    return model.eval()


@pytest.mark.parametrize("name", MODELS)
def test_the_same_numbers_on_a_device(device, name, tmp_path):
    model = built(name)
    x = sample(2, model.window, model.dim, seed=2, scale=0.3)
    if model.chart is not None:
        x = x.abs() + 0.5
    transforms = " " not in name and name not in ARCHITECTURES
    there = assert_same_map(model, x, device, 1e-11, transforms=transforms)
    if " " in name:
        return
    vp.save(there, tmp_path / "model.safetensors")
    loaded = vp.load(tmp_path / "model.safetensors", device=device)
    assert all(value.device == device for value in loaded.state_dict().values())
    with torch.no_grad():
        assert torch.equal(loaded(x.to(device)), there(x.to(device)))
        assert_same(vp.load(tmp_path / "model.safetensors")(x).to(device), model(x), device)


@pytest.fixture(scope="module")
def family(tmp_path_factory):
    """A family, and some of its states."""
    path = tmp_path_factory.mktemp("family") / "family.h5"
    data = vp.generate("pendulum", path, count=12, steps=3, vary={"step": [0.01, 0.2]})
    system = data.family.extended
    model = vp.models.build(system, "spff", {"functions": "polynomial", "degree": 3, "depth": 1})
    vp.train(model, data, epochs=1, progress=False)
    return model, torch.from_numpy(data.states("train")[:3, 0].copy())


def test_a_family_and_its_members(device, family):
    model, states = family
    there = copy.deepcopy(model).to(device)
    k = torch.tensor([0.1], dtype=torch.float64)
    member, own = there.at(step=0.1), model.at(step=0.1)
    assert_same(member(states[:, None].to(device)), own(states[:, None]), device)
    assert_same(there(states[:, None].to(device), k.to(device)), model(states[:, None], k), device)


def test_what_models_become_stays_on_the_device(device):
    x = sample(2, 3, 3, scale=0.3)
    model = ARCHITECTURES["vpt"](dim=3, functions="polynomial", degree=3, depth=2).to(device)
    larger = prolong(model, depth=3, degree=4)
    assert_same(larger(x.to(device)), copy.deepcopy(larger).cpu()(x), device)
