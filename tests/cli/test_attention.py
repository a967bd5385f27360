"""The attention of a model is told wherever the model is shown."""

import csv
import io
import json

import pytest

import vpintegrator as vp
from vpintegrator import plotting
from vpintegrator.cli.rollout import main as rollout
from vpintegrator.cli.show import main as show
from vpintegrator.cli.train import main as train
from vpintegrator.training.training_data import TrainingData


@pytest.mark.parametrize(
    ("system", "name", "measure"),
    [
        ("rigid-body", "vpt", "rotations by"),
        ("rigid-body", "vpmt", "entropy"),
        ("coupled-oscillators", "spt", "rotations by"),
        ("rigid-body", "transformer", "entropy"),
    ],
)
def test_it_is_told_everywhere(run, system, name, measure):
    data = vp.generate(system, "data.h5", count=60, steps=6).path
    options = ("--model", name, "--window", "3", "--epochs", "2", "--seconds", "20")
    done = run(train, data, *options, "-o", "model.safetensors")
    assert done.exit_code == 0, done.output
    model = vp.load("model.safetensors")
    words = model.metadata["attention"]
    data = vp.open_dataset(data)
    change = vp.nn.attention_change(model, TrainingData(data).held_out(model)[0])
    assert words.startswith(f"attention: {change.weights} weights, relative change ")
    assert measure in words and words in " ".join(done.output.split())
    shown = run(show, "model.safetensors").output
    assert measure in " ".join(shown.split())
    found = json.loads(run(show, "model.safetensors", "--json", "--quiet").stdout)
    assert found["metadata"]["attention"] == words
    done = run(
        *(rollout, "model.safetensors", "--against", "rk4", "--steps", "5"),
        *("-o", "rollout.h5", "-v"),
    )
    # lines may end at hyphens
    assert f"model: {words}".replace(" ", "") in "".join(done.output.split())
    report = vp.open_rollout("rollout.h5")
    first, second = csv.DictReader(io.StringIO(plotting.csv_table(report)))
    assert words in first["structure"] and "attention" not in second["structure"]
    for table in (plotting.markdown_table, plotting.latex_table):
        assert f"model: attention: {change.weights} weights" in table(report)
