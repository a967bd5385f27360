"""Models as ONNX and as programs of torch.export."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch

import vpintegrator as vp
from tests.compiled import conftest as compiled
from vpintegrator.export import onnx_file

ROUNDING = {torch.float64: 1e-14, torch.float32: 1e-5}


def assert_same(found, model, X, factor=1.0):
    expected = model.predict(X).detach().numpy()
    assert found.shape == (len(X), model.prediction_window, model.dim)
    size = np.abs(expected).max()
    assert np.abs(found - expected).max() <= factor * ROUNDING[model.scale.dtype] * size


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("arbitrary, long", torch.float32),  # with inverses of matrices
        ("vpmt", torch.float64),  # with numbers beside tensors that float32 has not
    ],
)
def test_onnxruntime_gives_the_same_for_any_number_of_windows(name, dtype, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    model = compiled.build(name, dtype)
    model.metadata = {"system_name": "rigid-body", "step": "0.2"}
    written = vp.export(model, tmp_path / "a.onnx", "onnx")
    assert (written.verified, written.note) == (True, "")
    session = onnxruntime.InferenceSession(written.path)
    (given,), (made,) = session.get_inputs(), session.get_outputs()
    assert (given.name, given.shape[1:]) == ("windows", [model.window, model.dim])
    assert (made.name, made.shape[1:]) == ("states", [model.prediction_window, model.dim])
    assert isinstance(given.shape[0], str)
    for count in (1, 2, 7):
        X = compiled.windows(model, count)
        (states,) = session.run(None, {"windows": X.numpy()})
        assert_same(states, model, X, factor=10)
    about = session.get_modelmeta().custom_metadata_map
    assert about["system"] == "rigid-body"
    assert about["step"] == "0.2"
    assert about["model"] == model.name


def test_what_onnxruntime_lacks_is_said(tmp_path):
    pytest.importorskip("onnxruntime")
    model = vp.models.ResidualNetwork(dim=2, width=3, depth=1, activation="gelu")
    written = vp.export(model, tmp_path / "a.onnx", "onnx")
    assert not written.verified
    assert "onnxruntime does not run it: " in written.note
    assert "Erf" in written.note


LOADS = """
import json, sys
import numpy as np, torch
extra = {"vpintegrator.json": ""}
program = torch.export.load(sys.argv[1], extra_files=extra).module()
windows = torch.from_numpy(np.load(sys.argv[2]))
np.save(sys.argv[3], program(windows).detach().numpy())
assert not any(name.startswith("vpintegrator") for name in sys.modules)
print(json.loads(extra["vpintegrator.json"])["model"])
"""


@pytest.mark.thorough
def test_a_program_runs_where_this_package_is_not_imported(tmp_path):
    model = compiled.build("shorter prediction")
    assert vp.export(model, tmp_path / "a.pt2", "torch").verified
    X = compiled.windows(model, 7)
    np.save(tmp_path / "X.npy", X.numpy())
    command = [sys.executable, "-c", LOADS, "a.pt2", "X.npy", "Y.npy"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == "vpt"
    assert_same(np.load(tmp_path / "Y.npy"), model, X)


@pytest.mark.parametrize("to", ["onnx", "torch"])
def test_what_cannot_be_exported_is_refused_in_a_sentence(to, tmp_path):
    class Choosing(vp.models.ResidualNetwork):
        def forward(self, window):
            return super().forward(window) if window.sum() > 0 else window

    with pytest.raises(vp.InputError, match=rf"cannot be exported to {to}: PyTorch cannot follow"):
        vp.export(Choosing(dim=2, depth=1), tmp_path / "a", to)
    with pytest.raises(vp.InputError, match="for C alone"):
        vp.export(vp.models.ResidualNetwork(dim=2), tmp_path / "a", to, jacobian=True)
    assert not list(tmp_path.iterdir())


def test_what_writes_onnx_is_named_where_it_is_not_installed(tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_file, "_NEEDED", ("no_such_package",))
    with pytest.raises(vp.InputError, match=r"no_such_package: pip install vpintegrator\[export\]"):
        vp.export(vp.models.ResidualNetwork(dim=2), tmp_path / "a.onnx", "onnx")


def test_the_facts_are_texts():
    from vpintegrator.export.description import facts_of

    model = vp.models.VolumePreservingTransformer(dim=3, window=3, width=3)
    facts = facts_of(model)
    assert facts["windows"] == "3 states, of which 1 are new"
    assert json.dumps(facts)
