import json

import pytest
import safetensors
import safetensors.torch
import torch

from tests.models.needed import needed
from tests.nn.laws import SIGN_FLIPS, assert_close, randomise, sample
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
    with pytest.raises(InputError, match=r"save vp.wrap"):
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
        (None, "is a safetensors file of another program, not a model"),
        ({"format": "pt"}, "is a safetensors file of another program, not a model"),
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
        (header(arguments="[" * 10**6), "nested too deeply"),
        (header(arguments='{"dim": 2, "dim": 3}'), "twice"),
        (header(arguments='{"dim": NaN}'), "dim must be an integer, not nan"),
        (header(arguments='{"dim": 2, "initial_scale": Infinity}'), "finite number, not inf"),
        (header(arguments='{"dim": 2, "initial_scale": "1"}'), "finite number, not '1'"),
        (header(arguments='{"dim": 2, "time_mixing": "false"}'), "true or false"),
        (header(arguments='{"dim": 2, "weighting": ["skew"]}'), "weighting must be a text"),
        (header(arguments='{"dim": 2, "split": [[0], [1e300]]}'), "split"),
        (header(arguments='{"dim": 2, "split": [["0"], [1]]}'), "split"),
        (header(arguments='{"dim": 2, "reversing_symmetries": [[["a"]]]}'), "list of 2 x 2"),
        (header(arguments='{"dim": 2, "reversing_symmetries": {"0": 1}}'), "list of 2 x 2"),
        (header(arguments='{"dim": 2, "shift": [0, 0]}'), "arguments must be among"),
        (header(arguments='{"dim": 2, "width": %s}' % ("9" * 5000)), "not JSON"),
        (header(dtype="load"), "dtype"),
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


def damaged(path, model, change=lambda tensors: None, **entries):
    """A model's file with other tensors or another header."""
    save(model, path)
    with safetensors.safe_open(path, framework="pt") as file:
        metadata = file.metadata()
    tensors = safetensors.torch.load_file(path)
    change(tensors)
    safetensors.torch.save_file(tensors, path, metadata | entries)
    return path


ABSURD = {
    "vpt": [
        {"width": 10**13},
        {"depth": 10**9},
        {"window": 10**13},
        {"weighting": "coupled", "window": 10_000},
        {"dim": 10**13},
        {"dim": 5000},
        {"blocks": 10**9, "feed_forward": "triangular"},
        {"linear": 10**9, "feed_forward": "triangular", "blocks": 10**9},
        {"dim": 10**6, "feed_forward": "triangular"},
        {"split": [[0], [1] * 10**5]},
    ],
    "vpff": [{"dim": 10**9}, {"dim": 10**5, "split": "halves"}, {"depth": 10**12}],
    "vpmt": [
        {"heads": 10**13, "attention_width": 10**13},
        {"attention_width": 2 * 10**6},
        {"dim": 3000},
        {"window": 10_000, "attention_width": 10_000},
    ],
    "transformer": [
        {"blocks": 10**13},
        {"width": 10**9, "heads": 1},
        {"dim": 10**13},
        {"depth": 10**6, "heads": 3},
        {"positions": True, "window": 10_000, "width": 10**6},
    ],
    "resnet": [{"window": 10_000, "dim": 10**4}, {"width": 10**12}, {"depth": 10**10}],
}


@pytest.mark.parametrize("name", ABSURD)
def test_sizes_out_of_proportion_cost_nothing(name, path):
    """A header of a few bytes does not make a model that fills the memory."""
    model = ARCHITECTURES[name](dim=3)
    for absurd in ABSURD[name]:
        arguments = json.dumps(model.arguments | absurd)
        damaged(path, model, arguments=arguments)
        with pytest.raises(InputError, match=r"does not describe|do not fit") as caught:
            load(path)
        assert "\n" not in str(caught.value)
        path.unlink()


def test_symmetries_out_of_proportion(path):
    model = VolumePreservingTransformer(dim=3)
    flips = torch.diag_embed(torch.cartesian_prod(*[torch.tensor([1.0, -1.0])] * 9))
    for dim, symmetries in (
        (3, SIGN_FLIPS * 1000),
        (9, flips[:100].tolist()),
        (9, (flips[1:9] * 1e200).tolist()),
    ):
        arguments = model.arguments | {"dim": dim, "reversing_symmetries": symmetries}
        damaged(path, model, arguments=json.dumps(arguments))
        with pytest.raises(InputError, match=r"does not describe|do not fit"):
            load(path)
        path.unlink()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("scale"), "'scale' is missing"),
        (lambda t: t.update(more=torch.zeros(1)), "'more' is not expected"),
        (lambda t: t.update(shift=t["shift"].float()), "float32, not"),
        (lambda t: t.update(shift=t["shift"].long()), "int64, not"),
        (lambda t: t.update(shift=t["shift"][:, None]), r"\(3, 1\)"),
        (lambda t: t["scale"].fill_(-1), "scale must be positive"),
        (lambda t: t["shift"].fill_(torch.nan), "not finite"),
        (lambda t: t["core.psi.0.constants"].fill_(torch.inf), "not finite"),
        (lambda t: t["shift"].fill_(1), "do not respect the reversing symmetries"),
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
        ({"system": None}, "object of texts"),
        ({"step": "fast"}, "step must be a positive number, not 'fast'"),
        ({"step": "-1"}, "step must be a positive number"),
        ({"step": "1e400"}, "step must be a positive number"),
        ({"parameters": "{"}, "parameters is not JSON"),
        ({"parameters": "[1]"}, "parameters must be an object"),
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


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ((2**40).to_bytes(8, "little") + b"{}", "is not a safetensors file or is damaged"),
        ((10**5).to_bytes(8, "little") + b"[" * 10**5, "nested too deeply"),
        ((40).to_bytes(8, "little") + b'{"__metadata__": {"a": "1", "a": "2"}}  ', "twice"),
        ((30).to_bytes(8, "little") + b'{"__metadata__": {"a": 1}}    ', "must be texts"),
        ((30).to_bytes(8, "little") + b'{"__metadata__": []}          ', "must be texts"),
        ((4).to_bytes(8, "little") + b"\xff\xfe{}", "not a safetensors file"),
    ],
)
def test_headers_that_are_none(path, content, message):
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        load(path)


def test_loaded_models_are_in_evaluation_mode(path):
    model = StandardTransformer(dim=3, norm="batch")
    model(sample(20, 3, 3))
    save(model, path)
    again = load(path)
    assert not again.training
    X = sample(4, 3, 3, seed=1)
    assert_close(again(X), model.eval()(X), 0)
