"""Training on real trajectories, small enough for a test."""

import warnings

import numpy as np
import pytest
import torch

from vpintegrator import models
from vpintegrator.data import generate, windows
from vpintegrator.data.pairs import Pair
from vpintegrator.errors import InputError
from vpintegrator.training import History, relative_error, train
from vpintegrator.training.residuals import ErrorScale, doubt
from vpintegrator.training.training_data import TrainingData


def test_levenberg_marquardt_reaches_high_precision(body, one_step):
    model = one_step(8)
    history = train(model, body, optimizer="levenberg-marquardt", epochs=40)
    assert history.best_validation_error < 1e-3
    assert history.test_error < 1.5 * history.best_validation_error
    assert history.stopped_by == "epochs" and not history.warning
    # the windows stay the same, so the fit to them can only get better
    assert (np.diff(history.training_error[:15]) <= 1e-15).all()


def test_the_best_weights_are_kept(body, one_step):
    """A huge rate makes later epochs worse than earlier ones."""
    model = one_step()
    history = train(model, body, optimizer="adam", epochs=12, learning_rate=0.5, seed=1)
    assert min(history.validation_error) == history.best_validation_error
    data = TrainingData(body)
    error = relative_error(model, *data.held_out(model), scale=data.error_scale)
    assert error == pytest.approx(history.best_validation_error, rel=1e-12)
    assert history.best_epoch == 1 + int(np.argmin(history.validation_error))


def test_auto_picks_by_size_and_precision(body, one_step):
    assert train(one_step(), body, epochs=1).optimizer == "levenberg-marquardt"
    single = one_step(dtype=torch.float32)
    assert train(single, body, epochs=1).optimizer == "adam"


def test_a_flow_that_changes_volumes_is_no_matter_for_a_model_that_does_not(tmp_path):
    data = generate("lotka-volterra-2d", tmp_path / "populations.h5", count=20, steps=2)
    with pytest.warns(UserWarning, match="lotka-volterra-2d changes volumes .* vpff never does"):
        train(models.VolumePreservingFeedForward(dim=2, width=2), data, epochs=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        train(models.ResidualNetwork(dim=2, width=4), data, epochs=1)


def test_mistakes(body, one_step):
    wrong = models.VolumePreservingFeedForward(dim=4, width=2, depth=1)
    with pytest.raises(InputError, match=r"for states of 4 components.*holds states of 3"):
        train(wrong, body)
    sizes = {"window": 5, "prediction_window": 5, "width": 2, "depth": 1}
    long = models.VolumePreservingTransformer(dim=3, **sizes)
    with pytest.raises(InputError, match="need trajectories of 10 states, but these have 7"):
        train(long, body)
    with pytest.raises(InputError, match="optimizer must be one of auto"):
        train(one_step(), body, optimizer="no-such")
    wrong = {"seconds": -1, "loss": "huber", "horizon": 0, "noise": -1.0, "progress": "yes"}
    for name, value in wrong.items():
        with pytest.raises(InputError, match=name):
            train(one_step(), body, **{"epochs": 1, name: value})


def test_batch_norm_is_judged_as_it_is_rolled_out(body):
    """By running statistics, which judging leaves alone."""
    torch.manual_seed(0)
    published = {"width": 3, "positions": False, "prediction_window": None}
    model = models.StandardTransformer(dim=3, norm="batch", **published)
    history = train(model, body, epochs=3, batch=128)
    assert history.optimizer == "adam"
    assert not model.training
    inputs, targets = map(torch.from_numpy, windows(body.states("validation"), 3))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    assert before["core.1.norm.num_batches_tracked"] > 0
    difference = model(inputs) - targets
    scale = TrainingData(body).error_scale
    expected = float(difference[:, 0].detach().square().sum(-1).mean().sqrt()) / scale.spread
    assert history.best_validation_error == pytest.approx(expected, rel=1e-12)
    model.train()
    found = relative_error(model, inputs, targets, scale=scale)
    assert found == pytest.approx(expected, rel=1e-12)
    assert model.training
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimizer": "levenberg-marquardt"}, "use adam, or "),
        ({"optimizer": "l-bfgs"}, "use adam, or "),
        ({"compiled": True}, "train in PyTorch only"),
    ],
)
def test_batch_norm_needs_whole_batches_of_pytorch(body, options, message):
    with pytest.raises(InputError, match=message):
        train(models.StandardTransformer(dim=3, norm="batch"), body, epochs=1, **options)


@pytest.mark.parametrize(
    ("validation", "test", "words"),
    [
        (1e-3, 1e-3, ""),
        (1e-3, 0.9e-1, ""),
        (1e-3, 1.1e-1, "test error 1.1e-01 is far above the validation error 1.0e-03"),
        (1e-15, 1e-11, ""),
        (0.6, 0.4, "validation error 6.0e-01 is above that of no change, 5.0e-01"),
        (0.4, 0.6, "test error 6.0e-01 is above that of no change, 5.0e-01"),
        (0.1, float("inf"), "test error inf is far above"),
        (0.1, float("nan"), ""),
    ],
)
def test_what_is_told(validation, test, words):
    model = models.VolumePreservingFeedForward(dim=2)
    windows = Pair(torch.ones(5, 1, 2).double(), torch.full((5, 1, 2), 2.0).double())
    history = History("adam", 0, 100, best_validation_error=validation, test_error=test)
    told = doubt(model, windows, ErrorScale((0,), 2.0), history)
    assert words in told
    assert bool(words) == bool(told)
