"""Attention at the identity is told wherever a model is shown."""

import csv
import io
import json

import pytest

import vpintegrator as vp
from vpintegrator import plotting
from vpintegrator.cli.gen import main as gen
from vpintegrator.cli.rollout import main as rollout
from vpintegrator.cli.train import main as train
from vpintegrator.models.growth import freeze_attention

WORDS = "attention at the identity"


@pytest.fixture(scope="module")
def body(tmp_path_factory):
    path = tmp_path_factory.mktemp("attention") / "body.h5"
    return vp.generate("rigid-body", path, count=60, steps=6).path


@pytest.fixture(scope="module")
def oscillators(tmp_path_factory):
    path = tmp_path_factory.mktemp("attention") / "oscillators.h5"
    return vp.generate("coupled-oscillators", path, count=60, steps=6).path


@pytest.mark.parametrize("name", ["vpt", "vpmt", "spt"])
def test_it_is_told_everywhere(run, request, name):
    """Training goes on from a model whose attention is at the identity, or is not."""
    data = request.getfixturevalue("oscillators" if name == "spt" else "body")
    budget = ("--epochs", "1", "--no-verdict", "--compiled", "no", "--overwrite")
    sizes = {"window": 3, "depth": 1, "functions": "polynomial", "degree": 2}
    model = vp.models.build(vp.open_dataset(data).system, name, **sizes)
    for count in (0, 1):
        if count:
            freeze_attention(model)
        vp.train(model, data, epochs=1, compiled=False)
        vp.save(model, "start.safetensors", overwrite=True)
        done = run(train, data, "--start", "start.safetensors", *budget, "-o", "model.safetensors")
        assert done.exit_code == 0, done.output
        assert done.output.count(WORDS) == count
        shown = run(gen, "--inspect", "model.safetensors").output
        assert ("at the identity: the states of a window are mapped one by one" in shown) == count
        assert ("none of them at the identity" in shown) != count
        found = json.loads(run(gen, "--inspect", "model.safetensors", "--json", "--quiet").stdout)
        assert (found["acting_attention_layers"] == 0) == bool(count)
        assert found["attention_layers"] == 1
        done = run(
            *(rollout, "model.safetensors", "--against", "rk4", "--steps", "5"),
            *("--compiled", "no", "--overwrite", "-o", "rollout.h5"),
        )
        assert (f"model: {WORDS}" in " ".join(done.output.split())) == count
        report = vp.open_rollout("rollout.h5")
        first, second = csv.DictReader(io.StringIO(plotting.csv_table(report)))
        assert (WORDS in first["structure"]) == count and WORDS not in second["structure"]
        for table in (plotting.markdown_table, plotting.latex_table):
            assert (f"model: {WORDS}" in table(report)) == count
