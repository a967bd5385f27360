import copy
import json

import pytest
import safetensors
import safetensors.torch
import torch
from torch.nn.utils import parametrize

import vpintegrator as vp
from tests.models.needed import needed
from tests.nn.laws import assert_close, sample
from vpintegrator.errors import InputError
from vpintegrator.models import ARCHITECTURES, StandardTransformer, VolumePreservingTransformer
from vpintegrator.models.arguments import arguments_of


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


def small(name, **arguments):
    torch.manual_seed(0)
    sizes = {"depth": 1, "width": 4, "attention_width": 4, "initial_scale": 0.3}
    declared = arguments_of(ARCHITECTURES[name])
    sizes = {key: size for key, size in sizes.items() if key in declared}
    return ARCHITECTURES[name](dim=4, **needed(name), **sizes, **arguments)


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_round_trip(name, dtype, path):
    model = small(name, dtype=dtype)
    model.set_normalisation([1, 2, 3, 4], [4, 3, 2, 1])
    model.metadata = {"system": "title = 'ä'", "step": repr(0.1)}
    model.prediction_window = 1
    state = torch.get_rng_state()
    vp.save(model, path)
    again = vp.load(path)
    assert torch.equal(torch.get_rng_state(), state)
    assert type(again) is type(model)
    assert not again.training
    for attribute in ("metadata", "arguments", "prediction_window"):
        assert getattr(again, attribute) == getattr(model, attribute)
    X = sample(2, model.window, 4).to(dtype)
    assert_close(again(X), model.eval()(X), 0)
    assert {p.dtype for p in again.parameters()} <= {dtype}


class Doubled(torch.nn.Module):
    def forward(self, tensor):
        return 2 * tensor


def exchange(model, name):
    parent, _, own = name.rpartition(".")
    model.get_submodule(parent)._modules[own] = torch.nn.Identity()


def subclass(model, name):
    layer = model.get_submodule(name)
    layer.__class__ = type("Own", (type(layer),), {"forward": lambda self, z: 2 * z})


def parametrise(model, name):
    layer = model.get_submodule(name)
    for tensor in [*layer._parameters][:1]:
        parametrize.register_parametrization(layer, tensor, Doubled(), unsafe=True)


def add(model, name):
    model.get_submodule(name).add_module("more", torch.nn.Linear(4, 4))


def hook(model, name):
    model.get_submodule(name).register_forward_hook(lambda layer, inputs, output: 2 * output)


def activate(model, name):
    layer = model.get_submodule(name)
    if hasattr(layer, "activation"):
        layer.activation = torch.sin


def attach(model, name):
    model.get_submodule(name).forward = lambda z: 2 * z


@pytest.mark.parametrize("change", [exchange, subclass, parametrise, add, hook, activate, attach])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_another_map_is_never_written(name, change, path):
    """Each layer is changed: a model that is loaded is the one in memory, or saving refuses."""
    original = small(name)
    X = sample(3, original.window, 4)
    for layer, _ in original.named_modules():
        if not layer.startswith("core."):
            continue
        model = copy.deepcopy(original)
        change(model, layer)
        path.unlink(missing_ok=True)
        try:
            vp.save(model, path)
        except InputError as error:
            assert "core" in str(error) and "vp.wrap" in str(error)
            assert not path.exists()
        else:
            assert_close(vp.load(path)(X), model(X), 0)


def test_existing_file(path):
    model = VolumePreservingTransformer(dim=2)
    vp.save(model, path)
    with pytest.raises(InputError, match="exists already"):
        vp.save(model, path)
    vp.save(model, path, overwrite=True)
    with pytest.raises(InputError, match=r"save vp.wrap"):
        vp.save(torch.nn.Linear(1, 1), path, overwrite=True)
    model.metadata = {"step": 0.1}
    with pytest.raises(InputError, match="must be texts"):
        vp.save(model, path, overwrite=True)


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


def written(path, model, change=lambda tensors: None, **entries):
    """Write a model's file with other tensors or header, and the right checksum."""
    from vpintegrator.models.saving import _checksum

    vp.save(model, path)
    with safetensors.safe_open(path, framework="pt") as file:
        header = {**file.metadata(), **entries}
    tensors = safetensors.torch.load_file(path)
    change(tensors)
    header["checksum"] = _checksum(header, tensors)
    safetensors.torch.save_file(tensors, path, header)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"format": "pt"}, "is a safetensors file of another program, not a model"),
        ({"version": "2"}, "version 2"),
        ({"class": "gpt"}, "of the class 'gpt', which is none of this package"),
        ({"arguments": "{}"}, "does not take its arguments: .*'dim'"),
        ({"arguments": json.dumps({"dim": 3})}, "its weights do not fit"),
        ({"change": lambda tensors: tensors.popitem()}, "its weights do not fit .*: Missing key"),
    ],
)
def test_files_of_other_programs_and_versions(path, entries, message):
    written(path, VolumePreservingTransformer(dim=2), **entries)
    with pytest.raises(InputError, match=message) as caught:
        vp.load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_model_at_all(tmp_path):
    with pytest.raises(InputError, match="there is no file"):
        vp.load(tmp_path / "missing.safetensors")
    with pytest.raises(InputError, match="folder"):
        vp.load(tmp_path)
    for content in (b"", b"hello", b"\x80\x04." * 100, bytes(1000)):
        (tmp_path / "file").write_bytes(content)
        with pytest.raises(InputError, match="not a safetensors file"):
            vp.load(tmp_path / "file")


def test_running_means_are_stored(path):
    model = StandardTransformer(dim=3, norm="batch")
    model(sample(20, 3, 3))
    vp.save(model, path)
    X = sample(4, 3, 3, seed=1)
    assert_close(vp.load(path)(X), model.eval()(X), 0)
