import json

import pytest
import safetensors
import safetensors.torch
import torch

from tests.models.needed import needed
from tests.nn.laws import SIGN_FLIPS, assert_close, sample
from vpintegrator.errors import InputError
from vpintegrator.models import (
    ARCHITECTURES,
    StandardTransformer,
    VolumePreservingTransformer,
    load,
    save,
)
from vpintegrator.models.saving import FORMAT


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_round_trip(name, dtype, path):
    model = ARCHITECTURES[name](dim=4, dtype=dtype, **needed(name))
    model.set_normalisation([1, 2, 3, 4], [4, 3, 2, 1])
    model.metadata = {"system": "title = 'ä'", "step": repr(0.1)}
    save(model, path)
    again = load(path)
    assert type(again) is type(model)
    assert again.metadata == model.metadata
    assert again.arguments == model.arguments
    X = sample(2, model.window, 4).to(dtype)
    assert_close(again(X), model(X), 0)
    assert [p.dtype for p in again.parameters()] == [dtype] * len(list(again.parameters()))


def test_existing_file(path):
    model = VolumePreservingTransformer(dim=2)
    save(model, path)
    with pytest.raises(InputError, match="exists already"):
        save(model, path)
    save(model, path, overwrite=True)
    with pytest.raises(InputError, match=r"save vp.wrap"):
        save(torch.nn.Linear(1, 1), path, overwrite=True)


def header(**changes):
    entries = {
        "format": FORMAT,
        "version": "1",
        "class": "vpt",
        "arguments": json.dumps({"dim": 2}),
        "dtype": "float64",
        "metadata": "{}",
    }
    return {key: value for key, value in (entries | changes).items() if value is not None}


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        (None, "is a safetensors file of another program, not a model"),
        ({"format": "pt"}, "is a safetensors file of another program, not a model"),
        (header(version="2"), "version 2"),
        (header(**{"class": "gpt"}), "'gpt'"),
        (header(**{"class": None}), "of the class ''"),
        (header(arguments="{"), "does not describe"),
        (header(arguments="{}"), "dim"),
        (header(dtype="int8"), "dtype"),
        (header(metadata="[]"), "metadata"),
        (header(arguments="[" * 10**6), "nested too deeply"),
        (header(arguments='{"dim": NaN}'), "dim must be an integer, not nan"),
        (header(arguments='{"dim": 2, "initial_scale": Infinity}'), "finite number, not inf"),
        (header(arguments='{"dim": 2, "reversing_symmetries": [[["a"]]]}'), "list of 2 x 2"),
        (header(), "do not fit"),
    ],
)
def test_strange_headers(path, metadata, message):
    safetensors.torch.save_file({"weight": torch.zeros(2)}, path, metadata=metadata)
    with pytest.raises(InputError, match=message) as caught:
        load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_model_at_all(tmp_path):
    with pytest.raises(InputError, match="there is no file"):
        load(tmp_path / "missing.safetensors")
    with pytest.raises(InputError, match="folder"):
        load(tmp_path)
    for content in (b"", b"hello", b"\x80\x04." * 100, bytes(1000)):
        (tmp_path / "file").write_bytes(content)
        with pytest.raises(InputError, match="not a safetensors file"):
            load(tmp_path / "file")


def damaged(path, model, change=lambda tensors: None, **entries):
    """A model's file with other tensors or another header."""
    save(model, path)
    with safetensors.safe_open(path, framework="pt") as file:
        metadata = file.metadata()
    tensors = safetensors.torch.load_file(path)
    change(tensors)
    safetensors.torch.save_file(tensors, path, metadata | entries)
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("coordinates.scale"), "'coordinates.scale' is missing"),
        (lambda t: t.update({"coordinates.shift": t["coordinates.shift"][:, None]}), r"\(3, 1\)"),
        (lambda t: t["coordinates.scale"].fill_(-1), "scale must be positive"),
        (lambda t: t["coordinates.shift"].fill_(torch.nan), "not finite"),
        (lambda t: t["coordinates.shift"].fill_(1), "do not respect the reversing symmetries"),
    ],
)
def test_tensors_that_are_no_model(path, change, message):
    model = VolumePreservingTransformer(dim=3, reversing_symmetries=SIGN_FLIPS)
    with pytest.raises(InputError, match=message) as caught:
        load(damaged(path, model, change))
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"system": ["a"]}, "object of texts"),
        ({"step": "fast"}, "step must be a positive number, not 'fast'"),
        ({"step": "1e400"}, "step must be a positive number"),
        ({"parameters": "{"}, "parameters is not JSON"),
        ({"training": "[" * 10**5}, "training is nested too deeply"),
    ],
)
def test_metadata_that_others_could_not_use(path, metadata, message):
    with pytest.raises(InputError, match=message):
        load(damaged(path, VolumePreservingTransformer(dim=3), metadata=json.dumps(metadata)))
    with pytest.raises(InputError, match="must be texts"):
        model = VolumePreservingTransformer(dim=3)
        model.metadata = {"step": 0.1}
        save(model, path, overwrite=True)


def test_loaded_models_are_in_evaluation_mode(path):
    model = StandardTransformer(dim=3, norm="batch")
    model(sample(20, 3, 3))
    save(model, path)
    again = load(path)
    assert not again.training
    X = sample(4, 3, 3, seed=1)
    assert_close(again(X), model.eval()(X), 0)
