"""The curve of a training: from a history, a model, or the file of one."""

import numpy as np
import torch
from click.testing import CliRunner
from matplotlib.figure import Figure

import vpintegrator as vp
from vpintegrator import models, plotting
from vpintegrator.cli.plot import main
from vpintegrator.training import History


def trained():
    """A model with a training of five epochs, the fourth of them the best."""
    history = History("adam", seed=0, parameters=12)
    errors = [0.5, 0.1, 0.02, 0.01, float("nan")]
    for k, error in enumerate(errors):
        history.add(2.0 * (k + 1), 0.9 * error, error)
    history.test_error, history.stopped_by = 0.012, "epochs"
    torch.manual_seed(0)
    model = models.VolumePreservingFeedForward(dim=3, width=4, depth=1)
    model.origin = models.Origin(step=0.2)
    model.record = models.Record(history)
    return history, model


def test_curves_hold_the_errors_of_every_epoch(tmp_path):
    history, model = trained()
    vp.save(model, tmp_path / "net.safetensors")
    for source in (history, model, tmp_path / "net.safetensors"):
        for against, along in (("epochs", history.epoch), ("seconds", history.seconds)):
            axes = Figure().subplots()
            assert plotting.training(source, ax=axes, against=against) is axes
            training, validation, kept, test = axes.lines
            for line, errors in (
                (training, history.training_error),
                (validation, history.validation_error),
            ):
                np.testing.assert_array_equal(line.get_xdata(), along)
                np.testing.assert_array_equal(line.get_ydata(), errors)
            assert (kept.get_xdata()[0], kept.get_ydata()[0]) == (along[3], 0.01)
            assert test.get_ydata()[0] == 0.012
    labels = [text.get_text() for text in axes.legend().get_texts()]
    assert labels == ["training", "validation", "weights kept (epoch 4)", "test 1.2e-02"]


def test_the_command_draws_the_training_of_a_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    vp.save(trained()[1], "net_$1.safetensors")
    result = CliRunner().invoke(main, ["net_$1.safetensors", "-o", "f", "--format", "svg"])
    assert result.exit_code == 0, result.output
    names = {path.name for path in (tmp_path / "f").iterdir()}
    assert names == {"training.svg", "captions.md"}
    words = " ".join((tmp_path / "f" / "captions.md").read_text().split())
    assert "by adam: 5 epochs in 10 s, stopped by epochs." in words
    assert "epoch 4, with a validation error of 1.00e-02. Error on the test set: 1.20e-02" in words
    again = CliRunner().invoke(main, ["net_$1.safetensors", "-o", "f", "--format", "svg"])
    assert (again.exit_code, "--overwrite" in again.output) == (2, True)
