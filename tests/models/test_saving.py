import copy
import json

import pytest
import safetensors
import safetensors.torch
import torch
from torch.nn.utils import parametrize

import vpintegrator as vp
from tests.models.cases import made
from tests.nn.laws import assert_close, sample
from vpintegrator.errors import InputError
from vpintegrator.models import ARCHITECTURES, StandardTransformer, VolumePreservingTransformer
from vpintegrator.models.saving import _checksum


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


class Doubled(torch.nn.Module):
    def forward(self, tensor):
        return 2 * tensor


def exchange(model, layer, name):
    parent, _, own = name.rpartition(".")
    model.get_submodule(parent)._modules[own] = torch.nn.Identity()


def subclass(model, layer, name):
    layer.__class__ = type("Own", (type(layer),), {"forward": lambda self, z: 2 * z})


def parametrise(model, layer, name):
    for tensor in [*layer._parameters][:1]:
        parametrize.register_parametrization(layer, tensor, Doubled(), unsafe=True)


def add(model, layer, name):
    layer.add_module("more", torch.nn.Linear(4, 4))


def hook(model, layer, name):
    layer.register_forward_hook(lambda layer, inputs, output: 2 * output)


def activate(model, layer, name):
    if hasattr(layer, "activation"):
        layer.activation = torch.sin


def attach(model, layer, name):
    layer.forward = lambda z: 2 * z


@pytest.mark.parametrize("change", [exchange, subclass, parametrise, add, hook, activate, attach])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_another_map_is_never_written(name, change, path):
    """Each layer is changed: a model that is loaded is the one in memory, or saving refuses."""
    original = made(name)
    X = sample(3, original.window, 4)
    for layer, _ in original.named_modules():
        if not layer.startswith("core."):
            continue
        model = copy.deepcopy(original)
        change(model, model.get_submodule(layer), layer)
        path.unlink(missing_ok=True)
        try:
            vp.save(model, path)
        except InputError as error:
            assert "core" in str(error) and "vp.wrap" in str(error) and not path.exists()
        else:
            assert_close(vp.load(path)(X), model.eval()(X), 0)


def test_existing_file(path):
    model = VolumePreservingTransformer(dim=2)
    vp.save(model, path)
    with pytest.raises(InputError, match="exists already"):
        vp.save(model, path)
    vp.save(model, path, overwrite=True)
    with pytest.raises(InputError, match=r"save vp.wrap"):
        vp.save(torch.nn.Linear(1, 1), path, overwrite=True)


def test_a_flipped_bit_is_told(path):
    vp.save(VolumePreservingTransformer(dim=2, depth=1), path)
    data = path.read_bytes()
    size = 8 + int.from_bytes(data[:8], "little")
    start = data.index(b"__metadata__")
    for place in [*range(start, size, 41), *range(size, len(data), 61)]:
        path.write_bytes(data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :])
        with pytest.raises(InputError, match=r"is damaged|of another program|version") as caught:
            vp.load(path)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"format": "pt"}, "is a safetensors file of another program, not a model"),
        ({"version": "3"}, "version 3"),
        ({"class": "gpt"}, "of the class 'gpt', which is none of this package"),
        ({"arguments": "{}"}, "does not take its arguments: .*'dim'"),
        ({"arguments": json.dumps({"dim": 3})}, "its weights do not fit"),
        ({"tensors": {}}, "its weights do not fit .*: Missing key"),
    ],
)
def test_files_of_other_programs_and_versions(path, entries, message):
    """Others than those that were written, with the right checksum."""
    vp.save(VolumePreservingTransformer(dim=2), path)
    with safetensors.safe_open(path, framework="pt") as file:
        header = {**file.metadata(), **entries}
    tensors = header.pop("tensors", safetensors.torch.load_file(path))
    safetensors.torch.save_file(tensors, path, header | {"checksum": _checksum(header, tensors)})
    with pytest.raises(InputError, match=message) as caught:
        vp.load(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_no_model_at_all(path):
    with pytest.raises(InputError, match="there is no file"):
        vp.load(path)
    with pytest.raises(InputError, match="folder"):
        vp.load(path.parent)
    for content in (b"", b"hello", b"\x80\x04." * 100, bytes(1000)):
        path.write_bytes(content)
        with pytest.raises(InputError, match="not a safetensors file"):
            vp.load(path)


def test_running_means_are_stored(path):
    model = StandardTransformer(dim=3, norm="batch")
    model(sample(20, 3, 3))
    vp.save(model, path)
    X = sample(4, 3, 3, seed=1)
    assert_close(vp.load(path)(X), model.eval()(X), 0)


class Own(vp.models.Model):
    """A model of one's own."""

    def __init__(self, dim: int, *, layers: int = 2, reversing_symmetries=()) -> None:
        components = vp.models.Components(dim, reversing_symmetries)
        kicks = [vp.nn.AdditiveCoupling(dim, symmetries=components.group) for _ in range(layers)]
        super().__init__(vp.nn.Composition(*kicks), components, description="a model of one's own")


class Taken(Own):
    """Another class of the same arguments."""


def test_a_class_of_ones_own_is_saved_and_loaded(path):
    rho = torch.diag(torch.tensor([1.0, -1, 1]))
    model = Own(dim=3, layers=1, reversing_symmetries=[rho])
    model.set_normalisation([1.0, 0.0, 2.0], [2.0, 1.0, 3.0])
    vp.save(model, path)
    again = vp.load(path, model=Own)
    assert (type(again), again.arguments) == (Own, model.arguments)
    assert again.arguments == {"dim": 3, "layers": 1, "reversing_symmetries": [rho.tolist()]}
    X = sample(4, 1, 3)
    assert_close(again(X), model(X), 0)
    with pytest.raises(InputError, match=r"of the class '.*Own', .*vp.load\(path, model=MyModel\)"):
        vp.load(path)
    with pytest.raises(InputError, match=r"the class .*Own: it is not a .*Taken"):
        vp.load(path, model=Taken)
    vp.save(vp.models.LinearMap(dim=2), path, overwrite=True)
    with pytest.raises(InputError, match="holds a model of this package, linear; leave out model"):
        vp.load(path, model=Own)
    with pytest.raises(InputError, match=r"cannot be built again, .* missing .*'core'"):
        vp.save(vp.models.Model(torch.nn.Identity(), 2), path, overwrite=True)


def test_origin_and_record_are_those_of_the_model(path, tmp_path):
    data = vp.generate("pendulum", tmp_path / "data.h5", count=20, steps=10)
    fit = vp.fit(data, [vp.training.Network({"width": 3}, architecture="vpff")], epochs=3)
    model = fit.model
    vp.save(model, path)
    again = vp.load(path)
    assert (again.system.text, again.system.parameters) == (data.system.text, data.parameters)
    for name in ("step", "dataset", "fingerprint", "domain", "member"):
        assert getattr(again.origin, name) == getattr(model.origin, name)
    assert again.origin.dataset == str(data.path) and again.domain.components
    assert again.record == model.record and model.record.history is fit.history
    assert model.record.history.test_error > 0 and len(model.record.search) == 1


def damaged(model, path, **entries):
    """Write a model with other entries in its record."""
    vp.save(model, path, overwrite=True)
    with safetensors.safe_open(path, framework="pt") as file:
        header = file.metadata()
    record = json.loads(header["record"])
    history = entries.pop("history", None)
    if history is not None:
        record["history"] = {**record["history"], **history}
    header["record"] = json.dumps(record | entries)
    tensors = safetensors.torch.load_file(path)
    safetensors.torch.save_file(tensors, path, header | {"checksum": _checksum(header, tensors)})


@pytest.mark.parametrize(
    "entries",
    [
        {"provenance": 3},
        {"search": "line"},
        {"search": [1]},
        {"lead_time_errors": ["x"]},
        {"one_step": [1]},
        {"search_seconds": "x"},
        {"other": 1},
        {"history": {"epoch": [1, 2]}},
        {"history": {"seconds": ["x"]}},
        {"history": {"epoch": 1}},
        {"history": {"test_error": None}},
        {"history": {"compiled": "yes"}},
        {"history": {"other": 1}},
    ],
)
def test_a_damaged_record_is_refused(path, entries):
    model = VolumePreservingTransformer(dim=2, depth=1)
    history = vp.training.History("adam", 0, 3, [1], [0.5], [0.1], [0.2])
    history.test_error = 0.3
    history.test_deviation = 0.01
    model.record = vp.models.Record(history)
    damaged(model, path)
    assert vp.load(path).record == model.record
    damaged(model, path, **entries)
    with pytest.raises(InputError, match="record of its training is damaged"):
        vp.load(path)
