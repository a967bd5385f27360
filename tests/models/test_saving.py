import json

import pytest
import safetensors.torch
import torch

from tests.nn.laws import SIGN_FLIPS, assert_close, randomise, sample
from vpintegrator.errors import InputError
from vpintegrator.models import ARCHITECTURES, VolumePreservingTransformer, load, save
from vpintegrator.models.saving import FORMAT


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_round_trip(name, dtype, path):
    model = ARCHITECTURES[name](dim=4, dtype=dtype)
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


def test_symmetries_survive(path):
    model = randomise(VolumePreservingTransformer(dim=3, reversing_symmetries=SIGN_FLIPS), 0.3, 1)
    save(model, path)
    X = sample(3, 3)
    assert_close(load(path)(X), model(X), 0)
    assert len(load(path).reversing_symmetries) == 3


def test_existing_file(path):
    model = VolumePreservingTransformer(dim=2)
    save(model, path)
    with pytest.raises(InputError, match="exists already"):
        save(model, path)
    save(model, path, overwrite=True)
    with pytest.raises(InputError, match="can be saved"):
        save(torch.nn.Linear(1, 1), path, overwrite=True)


def header(**changes):
    entries = {
        "format": FORMAT,
        "version": "1",
        "architecture": "vpt",
        "arguments": json.dumps({"dim": 2}),
        "dtype": "float64",
        "metadata": "{}",
    }
    return {key: value for key, value in (entries | changes).items() if value is not None}


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        (None, "not a model saved by vpintegrator"),
        ({"format": "pt"}, "not a model saved by vpintegrator"),
        (header(version="2"), "version 2"),
        (header(architecture="gpt"), "'gpt'"),
        (header(architecture=None), "architecture"),
        (header(arguments="{"), "does not describe"),
        (header(arguments="[]"), "does not describe"),
        (header(arguments='{"dim": 2, "depht": 1}'), "depth"),
        (header(arguments='{"dim": "2"}'), "dim must be"),
        (header(arguments="{}"), "dim"),
        (header(dtype="int8"), "dtype"),
        (header(metadata="[]"), "metadata"),
        (header(), "do not fit"),
    ],
)
def test_strange_headers(path, metadata, message):
    safetensors.torch.save_file({"weight": torch.zeros(2)}, path, metadata=metadata)
    with pytest.raises(InputError, match=message) as caught:
        load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_tensors_of_another_size(path):
    save(VolumePreservingTransformer(dim=2), path)
    tensors = safetensors.torch.load_file(path)
    safetensors.torch.save_file(tensors, path, header(arguments=json.dumps({"dim": 3})))
    with pytest.raises(InputError, match="do not fit"):
        load(path)


def test_no_model_at_all(tmp_path):
    with pytest.raises(InputError, match="there is no file"):
        load(tmp_path / "missing.safetensors")
    with pytest.raises(InputError, match="folder"):
        load(tmp_path)
    for content in (b"", b"hello", b"\x80\x04." * 100, bytes(1000)):
        (tmp_path / "file").write_bytes(content)
        with pytest.raises(InputError, match="not a safetensors file"):
            load(tmp_path / "file")
