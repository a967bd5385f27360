"""The attention of a model is told wherever the model is shown."""

import csv
import io

import pytest

import vpintegrator as vp
from vpintegrator import plotting
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
def test_it_is_told_everywhere(done, system, name, measure):
    data = vp.generate(system, "data.h5", count=60, steps=6)
    options = ("--model", name, "--window", "3", "--epochs", "2", "--seconds", "20")
    output = done(train, data.path, *options, "-o", "model.safetensors")
    model = vp.load("model.safetensors")
    words = model.record.attention
    change = vp.nn.attention_change(model, TrainingData(data).held_out(model)[0])
    assert words.startswith(f"attention: {change.weights} weights, relative change ")
    assert measure in words and words in " ".join(output.split())
    assert measure in " ".join(done(show, "model.safetensors").split())
    report = vp.compare(model, "rk4", steps=5, compiled=False)
    first, second = csv.DictReader(io.StringIO(plotting.csv_table(report)))
    assert first["attention"] == words and second["attention"] == ""
    assert "attention" not in first["structure"]
    for table in (plotting.markdown_table, plotting.latex_table):
        assert f"{name}: attention: {change.weights} weights" in table(report)
