"""Every optimizer, against closed forms and against one another."""

import pytest
import torch

from tests.training.conftest import ITERATIVE
from vpintegrator import models
from vpintegrator.data import windows
from vpintegrator.data.pairs import Pair, Pairs
from vpintegrator.errors import InputError
from vpintegrator.training import OPTIMIZERS, train
from vpintegrator.training.optimizers import BY_NAME, LevenbergMarquardt, Optimizer
from vpintegrator.training.residuals import Objective, relative


class Linear(models.Model):
    """z -> M z, whose least-squares problem has a closed form."""

    def __init__(self):
        core = torch.nn.Linear(3, 3, bias=False, dtype=torch.float64)
        super().__init__(core, 3)


def random_pairs(count=300):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(count, 1, 3, generator=generator, dtype=torch.float64)
    return x, torch.randn(count, 1, 3, generator=generator, dtype=torch.float64)


def test_a_linear_problem_against_lstsq():
    torch.manual_seed(0)
    model = Linear()
    x, y = random_pairs()
    pairs = Pairs.of_tensors(x, y)
    optimizer = LevenbergMarquardt(model, pairs, batch=300, generator=torch.Generator())
    for _ in range(12):
        optimizer.epoch(0.0)
    expected = torch.linalg.lstsq(x[:, 0], y[:, 0]).solution.mT
    torch.testing.assert_close(model.core.weight.detach(), expected, rtol=1e-8, atol=1e-8)


def test_steps_do_not_depend_on_blocks(body, one_step):
    pairs = body.windows(1)
    steps = []
    for block in (7, 64, 1000):
        optimizer = LevenbergMarquardt(
            one_step(), pairs, generator=torch.Generator().manual_seed(0)
        )
        optimizer.block = block
        equations = optimizer.linearise(optimizer.iteration.parameters)
        steps.append(equations.solve(1.0))
    for step in steps[1:]:
        torch.testing.assert_close(step, steps[0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["auto", *ITERATIVE])
def test_every_optimizer_learns(body, one_step, name):
    history = train(one_step(), body, optimizer=name, epochs=12, batch=200)
    assert history.best_validation_error < 0.1


class Momentum(Optimizer):
    """All that it takes to add one."""

    name = "momentum"
    batch_size = 500
    step_seconds = 0.01

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.parameters = torch.nn.Parameter(self.residuals.read())
        self.roll_back()

    def epoch(self, progress):
        self.parameters.data.copy_(self.residuals.read())
        for pair in self.pairs.batches(self.batch, self.generator):
            pair = self.ready(pair)
            squares, gradient = self.residuals.gradient(self.parameters, pair)
            self.parameters.grad = gradient / pair.targets.numel()
            self.optimizer.step()
        self.residuals.write(self.parameters.detach())
        return relative(squares[1].item(), pair.targets.square().sum().item())

    def roll_back(self):
        self.optimizer = torch.optim.SGD([self.parameters], lr=1e-2, momentum=0.9)


def test_another_optimizer_is_a_class_and_an_entry(body, one_step, monkeypatch):
    monkeypatch.setitem(BY_NAME, "momentum", Momentum)
    history = train(one_step(), body, optimizer="momentum", epochs=20, batch=100)
    assert history.best_validation_error < 0.5 * history.validation_error[0]


def test_an_option_names_the_optimizers_that_have_it(body, one_step):
    having = " or ".join(k.name for k in BY_NAME.values() if k.follows_gradients)
    with pytest.raises(InputError, match=f"an option of {having}; l-bfgs has none"):
        train(one_step(), body, optimizer="l-bfgs", learning_rate=0.1)


def test_every_class_has_the_name_it_is_listed_by():
    assert {name: kind.name for name, kind in BY_NAME.items()} == {name: name for name in BY_NAME}
    assert tuple(BY_NAME) == OPTIMIZERS[1:]


def test_a_target_ends_training(body, one_step):
    history = train(one_step(8), body, epochs=100, target=0.01)
    assert history.stopped_by == "target"
    assert history.best_validation_error <= 0.01
    assert history.epochs < 100


def test_the_horizon_loss_is_that_of_a_rollout(body):
    """Against an obvious loop, for windows that overlap and windows that do not."""
    torch.manual_seed(0)
    for window, new, horizon in ((1, 1, 4), (2, 2, 2), (3, 1, 3)):
        sizes = {"dim": 3, "window": window, "prediction_window": new}
        model = (
            models.VolumePreservingFeedForward(dim=3, width=4)
            if window == 1
            else models.VolumePreservingTransformer(**sizes, width=4)
        )
        path = body.states("train")[:2]
        inputs, targets = map(torch.from_numpy, windows(path, window, new, horizon))
        objective = Objective(horizon=horizon)
        with torch.no_grad():
            pair = Pair(inputs, objective.new_states(model, targets))
            found = objective.difference(model, pair)
        from vpintegrator.rollout import rollout

        steps = window + horizon * new - 1
        states = rollout(model, torch.from_numpy(path[:, :window].copy()), steps)
        expected = states[:, window:] - torch.from_numpy(path[:, window : steps + 1].copy())
        starts = len(inputs) // 2
        torch.testing.assert_close(found[[0, starts]], expected, rtol=1e-12, atol=1e-12)


def test_an_explosion_is_rolled_back(body, one_step):
    """A weight is spoiled in the middle; training notices and goes on from the best weights."""
    model = one_step()

    def spoil(history):
        if history.epochs == 4:
            with torch.no_grad():
                next(model.parameters()).fill_(float("nan"))

    history = train(model, body, optimizer="adam", epochs=10, progress=spoil)
    assert history.rollbacks == 1
    assert history.stopped_by == "epochs"
    assert history.validation_error[-1] < 1


def test_a_map_that_ran_off_to_infinity_does_not_hang(body):
    """J^T J is infinite there, and no damping is larger."""
    model = models.VolumePreservingFeedForward(dim=3, functions="polynomial", degree=12)
    with torch.no_grad():
        model.core.get_submodule("0").coefficients.fill_(1e60)
    states = torch.from_numpy(body.states("train"))
    generator = torch.Generator().manual_seed(0)
    pairs = Pairs.of_tensors(states[:, :1], states[:, 1:2])
    optimizer = LevenbergMarquardt(model, pairs, generator=generator)
    assert not optimizer.epoch(0.0) < 1e30
