"""Training on real trajectories, small enough for a test."""

import inspect
import warnings

import numpy as np
import pytest
import torch

from vpintegrator import models
from vpintegrator.data import generate, windows
from vpintegrator.errors import InputError
from vpintegrator.training import relative_error, train
from vpintegrator.training.training_data import TrainingData

from .conftest import weights


def test_levenberg_marquardt_reaches_high_precision(body, one_step):
    model = one_step(8)
    history = train(model, body, optimizer="levenberg-marquardt", epochs=40)
    assert history.best_validation_error < 1e-3
    assert history.test_error < 1.5 * history.best_validation_error
    assert history.stopped_by == "epochs"
    # the windows stay the same, so the fit to them can only get better
    assert (np.diff(history.training_error[:15]) <= 1e-15).all()


@pytest.mark.parametrize("optimizer", ["levenberg-marquardt", "adam"])
def test_the_same_seed_gives_the_same_weights(body, optimizer, one_step):
    found = []
    for _ in range(2):
        model = one_step()
        train(model, body, optimizer=optimizer, epochs=3, seed=4)
        found.append(weights(model))
    assert torch.equal(*found)


def test_the_best_weights_are_kept(body, one_step):
    """A huge rate makes later epochs worse than earlier ones."""
    model = one_step()
    history = train(model, body, optimizer="adam", epochs=12, learning_rate=0.5, seed=1)
    inputs, targets = map(torch.from_numpy, windows(body.states("validation"), 1))
    assert min(history.validation_error) == history.best_validation_error
    scale = TrainingData(body).error_scale
    error = relative_error(model, inputs, targets, scale=scale)
    assert error == pytest.approx(history.best_validation_error, rel=1e-12)
    assert history.best_epoch == 1 + int(np.argmin(history.validation_error))


def test_seconds_end_training(body, one_step):
    history = train(one_step(), body, seconds=0.5)
    assert history.stopped_by == "seconds"


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


def test_the_relative_error_is_what_it_says(body, one_step):
    inputs, targets = map(torch.from_numpy, windows(body.states("test"), 1))
    model = one_step()
    with torch.no_grad():
        spread = (targets - targets.mean((0, 1))).norm()
        expected = ((model(inputs) - targets).norm() / spread).item()
    assert relative_error(model, inputs, targets) == pytest.approx(expected, rel=1e-12)


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
    with pytest.raises(InputError, match="seconds = -1"):
        train(one_step(), body, seconds=-1)
    with pytest.raises(InputError, match="learning_rate is an option of adam"):
        train(one_step(), body, epochs=1, learning_rate=1.0)
    for options in ({"loss": "huber"}, {"horizon": 0}, {"noise": -1.0}):
        with pytest.raises(InputError, match=next(iter(options))):
            train(one_step(), body, epochs=1, **options)


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
    expected = float(difference.detach().square().sum(-1).mean().sqrt()) / scale.spread
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


def test_a_batch_of_one_has_no_statistics_of_its_own():
    model = models.StandardTransformer(dim=3, window=1, norm="batch")
    X = torch.randn(1, 1, 3, dtype=torch.float64)
    assert torch.equal(model.train()(X), model.eval()(X))


def test_arguments_have_names_and_types(body, one_step):
    with pytest.raises(TypeError, match="unexpected keyword argument 'secnods'"):
        train(one_step(), body, secnods=60)
    parameters = inspect.signature(train).parameters.values()
    assert all(p.annotation is not p.empty and p.kind is not p.VAR_KEYWORD for p in parameters)
    with pytest.raises(InputError, match="progress must be a function, true or false"):
        train(one_step(), body, progress="yes")
