"""Every optimizer, against closed forms and against one another."""

import pytest
import torch

from tests.training.conftest import ITERATIVE
from vpintegrator import models
from vpintegrator.data import windows
from vpintegrator.data.pairs import Pair, Pairs
from vpintegrator.errors import InputError
from vpintegrator.rollout import rollout
from vpintegrator.training import train
from vpintegrator.training.optimizers import LevenbergMarquardt, Momentum
from vpintegrator.training.residuals import Objective


def test_steps_do_not_depend_on_blocks(body, one_step):
    pairs = body.windows(1)
    optimizer = LevenbergMarquardt(one_step(), pairs, generator=torch.Generator())
    steps = []
    for optimizer.block in (7, 64, 1000):
        equations = optimizer.linearise(optimizer.iteration.parameters)
        steps.append(equations.solve(1.0))
    for step in steps[1:]:
        torch.testing.assert_close(step, steps[0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["auto", *ITERATIVE])
def test_every_optimizer_learns(body, one_step, name):
    history = train(one_step(), body, optimizer=name, epochs=12, batch=200)
    assert history.best_validation_error < 0.1


def test_momentum_is_polyaks_heavy_ball(body, one_step):
    """One batch of all windows: two steps, with gradients by torch."""
    states = torch.from_numpy(body.states("train"))
    inputs, targets = states[:, :1], states[:, 1:2]
    pairs, model, other = Pairs.of_tensors(inputs, targets), one_step(), one_step()
    optimizer = Momentum(model, pairs, batch=len(pairs), generator=torch.Generator())
    velocity = [torch.zeros_like(p) for p in other.parameters()]
    for progress in (0.0, 0.25):
        optimizer.epoch(progress)
        difference = other(inputs) - targets
        scaled = difference / other.coordinates.state_scale
        gradients = torch.autograd.grad(scaled.square().mean(), [*other.parameters()])
        rate = 0.1 * optimizer.decay(progress)
        with torch.no_grad():
            for p, v, g in zip(other.parameters(), velocity, gradients, strict=True):
                p.sub_(rate * v.mul_(0.9).add_(g))
    for own, expected in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(own, expected, rtol=0, atol=1e-12)


def largest(predicted, true):
    return (predicted - true).abs().amax(-1).mean()


def test_a_loss_of_ones_own(body, one_step):
    """Mean squares written out train as those that have a name; others train, too."""
    model, other = one_step(), one_step()
    options = {"optimizer": "adam", "epochs": 3, "batch": 100, "compiled": False}
    train(model, body, **options)

    def squares(predicted, true):
        return ((predicted - true) / other.coordinates.state_scale).square().mean()

    history = train(other, body, loss=squares, **options)
    for own, expected in zip(other.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(own, expected, rtol=0, atol=1e-10)
    assert history.optimizer == "adam"
    for optimizer in ("auto", "l-bfgs", "momentum"):
        history = train(one_step(), body, loss=largest, optimizer=optimizer, epochs=12, batch=200)
        assert history.best_validation_error < 0.2
        assert history.optimizer == ("adam" if optimizer == "auto" else optimizer)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"loss": largest, "optimizer": "levenberg-marquardt"},
            "loss of your own is a number; use",
        ),
        ({"loss": lambda p, t: p - t}, "loss must return a tensor of one number"),
        ({"loss": lambda p, t: 1.0}, "loss must return a tensor of one number"),
        ({"loss": "huber"}, "loss must be one of mean-square, relative"),
        ({"loss": 3}, "loss must be mean-square, relative, or a function"),
        ({"loss": largest, "optimizer": "adam", "compiled": True}, "computed in PyTorch"),
    ],
)
def test_losses_that_do_not_fit(body, one_step, options, message):
    with pytest.raises(InputError, match=message):
        train(one_step(), body, epochs=1, **options)


def test_a_target_ends_training(body, one_step):
    history = train(one_step(8), body, epochs=100, target=0.01)
    assert history.stopped_by == "target"
    assert history.best_validation_error <= 0.01 and history.epochs < 100


@pytest.mark.parametrize(("window", "new", "horizon"), [(1, 1, 4), (2, 2, 2), (3, 1, 3)])
def test_the_horizon_loss_is_that_of_a_rollout(body, window, new, horizon):
    """For windows that overlap and windows that do not."""
    arguments = {"window": window, "prediction_window": new, "width": 4}
    model = models.build(body.system, "vpt" if window > 1 else "vpff", arguments)
    path = body.states("train")[:2]
    inputs, targets = map(torch.from_numpy, windows(path, window, new, horizon))
    objective = Objective(horizon=horizon)
    with torch.no_grad():
        difference = objective.difference(model, Pair(inputs, objective.new_states(model, targets)))
    steps = window + horizon * new - 1
    states = rollout(model, torch.from_numpy(path[:, :window].copy()), steps)
    expected = states[:, window:] - torch.from_numpy(path[:, window : steps + 1].copy())
    starts = [0, len(inputs) // 2]
    torch.testing.assert_close(difference[starts], expected, rtol=1e-12, atol=1e-12)


def test_an_explosion_is_rolled_back(body, one_step):
    """A weight is spoiled in the middle; training notices and goes on from the best weights."""
    model = one_step()

    def spoil(history):
        if history.epochs == 4:
            with torch.no_grad():
                next(model.parameters()).fill_(float("nan"))

    history = train(model, body, optimizer="adam", epochs=10, progress=spoil)
    assert (history.rollbacks, history.stopped_by) == (1, "epochs")
    assert history.validation_error[-1] < 1


def test_a_map_that_ran_off_to_infinity_does_not_hang(body):
    """J^T J is infinite there, and no damping is larger."""
    model = models.VolumePreservingFeedForward(dim=3, functions="polynomial", degree=12)
    with torch.no_grad():
        model.core.get_submodule("0").coefficients.fill_(1e60)
    states = torch.from_numpy(body.states("train"))
    pairs = Pairs.of_tensors(states[:, :1], states[:, 1:2])
    optimizer = LevenbergMarquardt(model, pairs, generator=torch.Generator())
    assert not optimizer.epoch(0.0) < 1e30
