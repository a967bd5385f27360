"""vp-export: what it writes, prints and refuses."""

import json

import pytest

import vpintegrator as vp
from tests.cli.conftest import refused
from vpintegrator.cli.export import main
from vpintegrator.data import ExtendedDataset
from vpintegrator.models.family import KEY, FamilyConditions


@pytest.fixture
def model(tmp_path):
    found = vp.models.VolumePreservingFeedForward(dim=3, width=3, depth=1)
    found.metadata = {"system_name": "rigid-body", "step": "0.2"}
    vp.save(found, tmp_path / "body.safetensors")
    return found


def test_a_file_of_c(run, model, tmp_path):
    options = ("--name", "body", "--dtype", "float32", "--jacobian", "--many")
    options += ("--header", "body.h")
    done = run(main, "body.safetensors", *options)
    assert done.exit_code == 0, done.output
    assert "vpff, " in done.output
    assert "rigid-body, step 0.2" in done.output
    assert "equal to rounding" in done.output
    assert "written to body.c, its declarations to body.h" in done.output
    text = (tmp_path / "body.c").read_text()
    for name in (
        "body_step(const float *window",
        "body_rollout(",
        "body_step_jacobian(",
        "body_rollout_many(",
    ):
        assert name in text
        assert name in (tmp_path / "body.h").read_text()
    assert refused(run(main, "body.safetensors"), "body.c exists already")


def test_json(run, model, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    done = run(main, "body.safetensors", "-o", "a.c", "--json")
    found = json.loads(done.stdout)
    assert (found["output"], found["verified"]) == ("a.c", False)
    assert found["operations"] > 10
    assert "not compared with the model in PyTorch: the compiler no-such-compiler" in done.stderr


def test_what_is_refused(run, model, tmp_path):
    assert refused(run(main, "nothing.safetensors"), "there is no file nothing.safetensors")
    assert refused(run(main, "body.safetensors", "--step", "0.1"), "is no family")
    assert refused(run(main, "body.safetensors", "--name", "a b"), "a name of C")
    model.metadata[KEY] = FamilyConditions({"step": (0.1, 0.3)}, ["z[0]"], {}).text
    vp.save(model, tmp_path / "family.safetensors")
    assert refused(run(main, "family.safetensors"), "--step 0.1")
    assert refused(run(main, "family.safetensors", "-p", "I1=2"), "I1 is no condition")
    assert not list(tmp_path.glob("*.c"))


def test_a_model_of_a_family(run, tmp_path):
    vary = {"step": [0.1, 0.3]}
    data = vp.generate("pendulum", tmp_path / "d.h5", count=8, steps=4, vary=vary)
    system = ExtendedDataset(data).system
    model = vp.models.build(system, "spff", functions="polynomial", degree=4, depth=1)
    vp.train(model, data, epochs=1, compiled=False)
    vp.save(model, tmp_path / "family.safetensors")
    done = run(main, "family.safetensors", "--step", "0.15", "-o", "a.c")
    assert done.exit_code == 0, done.output
    text = (tmp_path / "a.c").read_text()
    assert "step: 0.15" in text
    assert "int vp_dim(void) { return 2; }" in text
