"""Models as C: the same map, called as others call it."""

import re
import subprocess

import numpy as np
import pytest
import torch

import vpintegrator as vp
from tests.compiled import conftest as compiled
from tests.devices.test_models import SMALL
from tests.nn.laws import randomise
from vpintegrator.compiled import CompiledModel
from vpintegrator.compiled.c_source import write_c
from vpintegrator.compiled.exporting import CLibrary
from vpintegrator.models import ARCHITECTURES
from vpintegrator.models.family import FamilyParameters

STRICT = ("-O2", "-Wall", "-Wextra", "-pedantic", "-Werror")


@pytest.mark.parametrize("name", [*SMALL, "formulas", "angles", "published", "shorter prediction"])
def test_every_architecture_and_layer_is_the_same_map(name):
    torch.manual_seed(0)
    if name in SMALL:
        model = compiled.ready(ARCHITECTURES[name](**SMALL[name]))
    else:
        model = compiled.build(name)
    library = CLibrary(write_c(model), model)
    compiled.assert_same_map(library, model, compiled.windows(model, 5), calls=2)


@pytest.mark.parametrize("name", ["activations", "polynomials"])
def test_in_float(name):
    model = compiled.build(name, torch.float32)
    library = CLibrary(write_c(model), model)
    compiled.assert_same_map(library, model, compiled.windows(model, 5), rounding=3e-5)


@pytest.fixture(scope="module", params=["polynomials", "vpff"])
def body(request):
    """A map near the identity of the rigid body's states."""
    model = compiled.MODELS[request.param]()
    randomise(model.core, 0.02, 1)
    return model.eval()


MAIN = """
#include <stdio.h>
#include "step.h"

int main(void)
{
    double window[3] = {0.0, 0.6, 0.8}, states[300], next[3];
    int i, n;
    vp_step(window, next);
    vp_rollout(window, states, 60);
    vp_rollout(window, NULL, 0);
    vp_rollout(window, states + 180, 40);
    if (vp_dim() != 3 || vp_window() != 1 || vp_prediction_window() != 1) return 1;
    for (i = 0; i < 3; i++)
        if (next[i] != states[i] || window[i] != states[297 + i]) return 2;
    for (n = 0; n < 300; n++) printf("%.17g\\n", states[n]);
    return 0;
}
"""


@pytest.mark.parametrize(
    ("language", "compiler"), [("c", "gcc -std=c99"), ("cpp", "g++ -std=c++17")]
)
def test_callers_get_the_digits_of_the_machine_code(body, language, compiler, tmp_path):
    vp.export(body, tmp_path / f"a.{language}", header=tmp_path / "step.h", verify=False)
    (tmp_path / f"main.{language}").write_text(MAIN)
    sources = f"main.{language}", f"a.{language}"
    command = [*compiler.split(), *STRICT, *sources, "-o", "main", "-lm"]
    subprocess.run(command, cwd=tmp_path, check=True)
    output = subprocess.check_output(["./main"], cwd=tmp_path, text=True)
    states = np.array(output.split(), float).reshape(-1, 3)
    first = torch.tensor([[[0.0, 0.6, 0.8]]], dtype=torch.float64)
    machine = CompiledModel(body, 1).predict(first.numpy(), 100)
    for expected in (machine, compiled.eager(body, first, 100)):
        assert np.abs(states - expected[0][0]).max() <= 1e-14


@pytest.mark.thorough
def test_a_file_keeps_nothing_between_calls(body, tmp_path):
    """No memory that can be written to, which threads would share."""
    (tmp_path / "step.c").write_text(write_c(body, jacobian=True).text)
    subprocess.run(["gcc", *STRICT, "-c", "step.c"], cwd=tmp_path, check=True)
    listed = subprocess.check_output(["nm", "step.o"], cwd=tmp_path, text=True)
    kinds = {line.split()[-2] for line in listed.splitlines()}
    assert "T" in kinds and not kinds & set("BbCDdSs")


@pytest.mark.parametrize("name", ["formulas", "vpt"])
def test_derivatives(name):
    model = compiled.build(name)
    library = CLibrary(write_c(model, jacobian=True), model)
    X = compiled.windows(model, 3)
    expected = torch.func.vmap(torch.func.jacrev(model.predict))(X).detach().numpy()
    states, found = library.jacobian(X.numpy())
    np.testing.assert_allclose(found, expected, atol=1e-12 * np.abs(expected).max())
    np.testing.assert_allclose(states, library.predict(X.numpy(), 1)[0], rtol=1e-12)


def test_no_text_of_a_file_gets_out_of_the_comment(tmp_path):
    model = vp.models.VolumePreservingFeedForward(dim=2, width=3, depth=1)
    name = "*/ #error out \n#error out\r\n/* \\\n??/\n é \x1b[31m" + "x" * 10_000
    model.origin = vp.models.Origin(vp.System(vp.load_system("pendulum").text, name), 0.1)
    vp.export(model, tmp_path / "a.c", verify=False)
    subprocess.run(["gcc", *STRICT, "-trigraphs", "-c", "a.c"], cwd=tmp_path, check=True)
    comment = (tmp_path / "a.c").read_text().split("#include")[0]
    assert comment.count("*/") == 1 and len(comment) < 4000


def test_the_head_says_what_the_model_is(tmp_path):
    data = vp.generate("pendulum", tmp_path / "data.h5", count=8, steps=5)
    model = vp.models.build(
        data.system, "spff", {"functions": "polynomial", "degree": 2, "depth": 1}
    )
    vp.train(model, data, epochs=1, compiled=False)
    path = vp.export(model, tmp_path / "a.c", name="swing", verify=False).path
    text = re.sub(r"\s*\n \* *", " ", path.read_text())
    for words in (
        *("spff: symplectic", "system: pendulum", "step: 0.2", "2 components: q, p"),
        *("keeps: the symplectic form", "relative error one window ahead"),
        f"vpintegrator {vp.__version__}",
        "swing_step(window, next): the next state, double next[2]",
    ):
        assert words in text


def test_what_cannot_be_exported_is_refused_in_a_sentence(tmp_path):
    path = tmp_path / "a.c"

    def refused(words, model, **options):
        with pytest.raises(vp.InputError, match=words):
            vp.export(model, path, **options)
        assert not list(tmp_path.iterdir())

    family = vp.models.VolumePreservingFeedForward(dim=3, parameters=1)
    family.family = FamilyParameters({"step": (0.1, 0.3)}, ["z[0]"], {})
    refused(r"a family, of step from 0\.1 to 0\.3: .* -p step=0\.1 \(model\.at", family)
    large = vp.models.VolumePreservingFeedForward(dim=64, width=2000, depth=2)
    refused("cannot be exported: it needs more than", large)
    plain = vp.models.VolumePreservingFeedForward(dim=2)
    refused("a name of C", plain, name="a*/")
    refused("dtype must be one of", plain, dtype="float16")
    refused("does not exist", plain, header=tmp_path / "none" / "a.h")
    refused("must be another file", plain, header=path)


def test_what_differs_from_the_model_is_not_written(tmp_path, monkeypatch):
    model = vp.models.VolumePreservingFeedForward(dim=2)
    monkeypatch.setattr(
        CLibrary, "predict", lambda self, windows, calls: (1.1 * windows.repeat(calls, 1), windows)
    )
    with pytest.raises(vp.InputError, match="gives other numbers than PyTorch"):
        vp.export(model, tmp_path / "a.c")
    assert not list(tmp_path.iterdir())


def test_where_there_is_no_compiler_it_is_said_that_nothing_was_compared(tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    model = vp.models.VolumePreservingFeedForward(dim=2)
    written = vp.export(model, tmp_path / "a.c")
    assert not written.verified and "no-such-compiler" in written.note
    with pytest.raises(vp.InputError, match="exists already"):
        vp.export(model, tmp_path / "a.c")
    vp.export(model, tmp_path / "a.c", overwrite=True)
