"""vp-export: what it writes, prints and refuses."""

import json

import pytest

import vpintegrator as vp
from tests.cli.conftest import refused
from vpintegrator.cli.export import main


@pytest.fixture
def model(tmp_path):
    found = vp.models.VolumePreservingFeedForward(dim=3, width=3, depth=1)
    found.origin = vp.models.Origin(vp.load_system("rigid-body"), 0.2)
    vp.save(found, tmp_path / "body.safetensors")
    return found


def test_a_file_of_c(run, done, model, tmp_path):
    output = done(main, "body.safetensors", "--jacobian")
    for text in ("vpff, ", "system rigid-body, step 0.2", "equal to rounding", "written to body.c"):
        assert text in output
    text = (tmp_path / "body.c").read_text()
    for name in ("vp_step(const double *window", "vp_rollout(", "vp_step_jacobian("):
        assert name in text
    assert refused(run(main, "body.safetensors"), "body.c exists already")


def test_without_a_compiler(run, model, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    done = run(main, "body.safetensors", "-o", "a.c", "--json")
    found = json.loads(done.stdout)
    assert (found["output"], found["verified"]) == ("a.c", False)
    assert found["operations"] > 10
    assert "not compared: the compiler no-such-compiler" in done.stderr


def test_a_model_of_a_family(run, done, tmp_path):
    vary = {"step": [0.1, 0.3]}
    data = vp.generate("pendulum", tmp_path / "d.h5", count=8, steps=4, vary=vary)
    kinds = [vp.training.search("spff", {"degree": 4, "depth": 1})]
    model = vp.fit(data, kinds, epochs=1, progress=False).model
    vp.save(model, tmp_path / "family.safetensors")
    assert refused(run(main, "family.safetensors"), "-p step=0.1")
    assert refused(
        run(main, "family.safetensors", "-p", "I1=2"), "I1 is no parameter of this family"
    )
    done(main, "family.safetensors", "-p", "step=0.15", "-o", "a.c")
    text = (tmp_path / "a.c").read_text()
    assert "step: 0.15" in text
    assert "int vp_dim(void) { return 2; }" in text
