"""Every optimizer, against closed forms and against one another."""

import errno
import os
from functools import partial

import pytest
import torch

from tests.training.conftest import ITERATIVE
from vpintegrator import models
from vpintegrator.data import windows
from vpintegrator.data.pairs import HeldPairs
from vpintegrator.errors import InputError
from vpintegrator.training import OPTIMIZERS, Objective, train
from vpintegrator.training.method import BY_NAME
from vpintegrator.training.optimizers.first_order import FirstOrder
from vpintegrator.training.optimizers.levenberg_marquardt import LevenbergMarquardt
from vpintegrator.training.optimizers.normal_matrix import normal_matrix
from vpintegrator.training.optimizers.torch_optimizer import TorchOptimizer
from vpintegrator.training.residuals import relative

from .conftest import weights


class Linear(models.Integrator):
    """z -> M z, whose least-squares problem has a closed form."""

    def __init__(self):
        core = torch.nn.Linear(3, 3, bias=False, dtype=torch.float64)
        super().__init__(core, dim=3, window=1, prediction_window=1, arguments={})


def random_pairs(count=300):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(count, 1, 3, generator=generator, dtype=torch.float64)
    return x, torch.randn(count, 1, 3, generator=generator, dtype=torch.float64)


def test_a_linear_problem_against_lstsq():
    torch.manual_seed(0)
    model = Linear()
    x, y = random_pairs()
    pairs = HeldPairs.of_tensors(x, y)
    optimizer = LevenbergMarquardt(model, pairs, batch=300, generator=torch.Generator())
    for _ in range(12):
        optimizer.epoch(0.0)
    expected = torch.linalg.lstsq(x[:, 0], y[:, 0]).solution.mT
    torch.testing.assert_close(model.core.weight.detach(), expected, rtol=1e-8, atol=1e-8)


def test_the_normal_equations_do_not_depend_on_blocks(body, one_step):
    pairs = body.windows(1)
    made = []
    for block in (7, 64, 1000):
        optimizer = LevenbergMarquardt(
            one_step(), pairs, generator=torch.Generator().manual_seed(0)
        )
        optimizer.block = block
        matrix, gradient = optimizer.normal_equations()
        made.append((matrix.whole(), gradient))
    for matrix, gradient in made[1:]:
        torch.testing.assert_close(matrix, made[0][0], rtol=1e-11, atol=1e-11)
        torch.testing.assert_close(gradient, made[0][1], rtol=1e-11, atol=1e-11)


def test_too_many_parameters_for_a_matrix(monkeypatch):
    with pytest.raises(InputError, match=r"up to 20,000 .* 20,001: .* 3.2 GB; use .* adam"):
        normal_matrix(torch.zeros(20_001, dtype=torch.float64), compiled=True)
    monkeypatch.setattr("vpintegrator.compiled.symmetric_matrix.np.zeros", _no_memory)
    with pytest.raises(InputError, match=r"no memory for J\^T J of 9 parameters, 0.0 GB"):
        normal_matrix(torch.zeros(9, dtype=torch.float64), compiled=True)


def _no_memory(*arguments):
    raise MemoryError


@pytest.mark.parametrize("name", ["auto", *ITERATIVE])
def test_every_optimizer_learns(body, one_step, name):
    history = train(one_step(), body, optimizer=name, epochs=12, batch=200)
    assert history.best_validation_error < 0.1


@pytest.mark.parametrize("name", ITERATIVE)
def test_resuming_is_equal_to_the_last_bit(body, one_step, name, tmp_path):
    options = {"optimizer": name, "epochs": 8, "batch": 200, "noise": 1e-4, "seed": 3}
    whole = one_step()
    train(whole, body, **options)

    def interrupt(history):
        if history.epochs == 5:
            raise KeyboardInterrupt

    path = tmp_path / "checkpoint"
    cut = one_step()
    history = train(cut, body, **options, checkpoint=path, progress=interrupt)
    assert history.stopped_by == "interrupt"
    resumed = one_step()
    history = train(resumed, body, **options, checkpoint=path, resume=True)
    assert history.epoch == list(range(1, 9))
    assert torch.equal(weights(resumed), weights(whole))
    assert not path.exists()


class Momentum(TorchOptimizer):
    """All that it takes to add one."""

    name = "momentum"
    step_seconds = 0.01

    @classmethod
    def default_batch(cls, model, objective):
        return 500

    def made(self):
        return torch.optim.SGD([self.parameters], lr=1e-2, momentum=0.9)

    def epoch(self, progress):
        self.parameters.data.copy_(self.residuals.read())
        for pair in self.pairs.batches(self.batch, self.generator):
            inputs, targets = self.ready(pair)
            squares, gradient = self.residuals.gradient(self.parameters, inputs, targets)
            self.parameters.grad = gradient / targets.numel()
            self.optimizer.step()
        self.residuals.write(self.parameters.detach())
        return relative(squares[1].item(), targets.square().sum().item())

    def roll_back(self):
        self.optimizer = self.made()

    def state(self):
        return {"inner": self.inner_state()}

    def restore(self, state):
        inner = state.part("inner")
        vector = self.parameters.detach()
        found = {"momentum_buffer": inner.tensor("momentum_buffer", vector)} if inner else {}
        self.restore_inner(found)


class FirstOrderMomentum(FirstOrder):
    """One of ``torch.optim`` that steps along gradients is less."""

    name = "momentum"
    # alone it is to become a method, as a function is
    kind = staticmethod(partial(torch.optim.SGD, momentum=0.9))
    remembered = ("momentum_buffer",)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", [Momentum, FirstOrderMomentum])
def test_another_optimizer_is_a_class_and_an_entry(body, one_step, tmp_path, monkeypatch, kind):
    monkeypatch.setitem(BY_NAME, "momentum", kind)
    monkeypatch.setattr("vpintegrator.training.method.OPTIMIZERS", ("auto", *BY_NAME))

    def interrupt(history):
        if history.epochs == 3:
            raise KeyboardInterrupt

    options = {"optimizer": "momentum", "epochs": 20, "batch": 100}
    options["checkpoint"] = tmp_path / "checkpoint"
    whole, cut = one_step(), one_step()
    history = train(whole, body, **options)
    assert history.best_validation_error < 0.5 * history.validation_error[0]
    train(cut, body, **options, progress=interrupt)
    train(cut, body, **options, resume=True)
    assert torch.equal(weights(cut), weights(whole))


def test_an_option_names_the_optimizers_that_have_it(body, one_step):
    having = " and ".join(k.name for k in BY_NAME.values() if "learning_rate" in k.options)
    with pytest.raises(InputError, match=f"an option of {having}; l-bfgs has none"):
        train(one_step(), body, optimizer="l-bfgs", learning_rate=0.1)


def test_every_class_has_the_name_it_is_listed_by():
    assert {name: kind.name for name, kind in BY_NAME.items()} == {name: name for name in BY_NAME}
    assert tuple(BY_NAME) == OPTIMIZERS[1:]


def test_checkpoints_are_written_at_intervals_and_survive_anything(body, one_step, tmp_path):
    """Killed without warning after a checkpoint, the training goes on from there."""
    path = tmp_path / "checkpoint"

    class Killed(BaseException):
        pass

    def kill(history):
        if history.epochs == 4:
            raise Killed

    options = {"optimizer": "adam", "epochs": 6, "checkpoint": path, "checkpoint_seconds": 0}
    with pytest.raises(Killed):
        train(one_step(), body, **options, progress=kill)
    resumed, whole = one_step(), one_step()
    train(resumed, body, **options, resume=True)
    train(whole, body, optimizer="adam", epochs=6)
    assert torch.equal(weights(resumed), weights(whole))


def test_a_checkpoint_of_another_training_is_refused(body, one_step, tmp_path):
    path = tmp_path / "checkpoint"

    def interrupt(_):
        raise KeyboardInterrupt

    train(one_step(), body, epochs=3, checkpoint=path, progress=interrupt)
    with pytest.raises(InputError, match="its seed was 0, now it is 1"):
        train(one_step(), body, epochs=3, checkpoint=path, resume=True, seed=1)
    with pytest.raises(InputError, match="its optimizer was"):
        train(one_step(), body, epochs=3, optimizer="adam", checkpoint=path, resume=True)
    path.write_bytes(b"not a checkpoint")
    with pytest.raises(InputError, match="damaged, or no checkpoint"):
        train(one_step(), body, epochs=3, checkpoint=path, resume=True)


@pytest.mark.thorough
def test_restarts_take_the_best(body, one_step):
    seen = []
    history = train(one_step(), body, epochs=12, restarts=3, progress=lambda h: seen.append(h))
    assert history.epochs == 6
    assert history.validation_error[0] < 0.5
    again = train(one_step(), body, epochs=12, restarts=3)
    assert again.validation_error == history.validation_error
    # the trials take half of the seconds, and the best start the other half
    timed = train(one_step(), body, seconds=4.0, restarts=2)
    assert timed.epochs > 1
    assert timed.seconds[0] >= 2.0
    assert timed.stopped_by == "seconds"


def test_a_target_ends_training(body, one_step):
    history = train(one_step(8), body, epochs=100, target=0.01)
    assert history.stopped_by == "target"
    assert history.best_validation_error <= 0.01
    assert history.epochs < 100


def test_the_windows_in_use_are_told(body, one_step):
    assert train(one_step(8), body, epochs=2, batch=100).windows == 100
    assert train(one_step(8), body, epochs=1, optimizer="adam").windows == 0
    pairs = len(body.states("train")) * (body.states("train").shape[1] - 1)
    assert train(one_step(8), body, epochs=2, batch=10**6).windows == pairs


@pytest.mark.parametrize(("width", "rows"), [(8, 4), (24, 4), (40, 2)])
def test_large_models_begin_with_fewer_windows(width, rows):
    model = models.VolumePreservingFeedForward(dim=3, width=width, depth=3)
    parameters = 36 * width
    assert sum(p.numel() for p in model.parameters()) == parameters
    batch = LevenbergMarquardt.default_batch(model, Objective())
    assert batch == max(rows * parameters // 3, 256)


@pytest.mark.thorough
def test_training_ends_when_patience_does(body, one_step):
    history = train(one_step(8), body, epochs=2000, patience=3)
    errors = history.validation_error
    assert history.stopped_by == "patience"
    assert history.epochs == history.improved_epoch + 3 < 2000
    assert history.improved_error == errors[history.improved_epoch - 1]
    assert min(errors[-3:]) >= 0.9 * history.improved_error


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
            found = objective.difference(model, inputs, objective.new_states(model, targets))
        from vpintegrator.rollout import rollout

        steps = window + horizon * new - 1
        states = rollout(model, torch.from_numpy(path[:, :window].copy()), steps)
        expected = states[:, window:] - torch.from_numpy(path[:, window : steps + 1].copy())
        starts = len(inputs) // 2
        torch.testing.assert_close(found[[0, starts]], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.thorough
def test_a_longer_horizon_and_noise_train(body, one_step):
    assert train(one_step(), body, epochs=15, horizon=3).best_validation_error < 0.05
    noisy = train(one_step(), body, epochs=15, noise=1e-3).best_validation_error
    assert noisy < 0.05
    with pytest.raises(InputError, match="9 predictions need trajectories of 10 states"):
        train(one_step(), body, epochs=1, horizon=9)
    for wrong in ({"loss": "huber"}, {"horizon": 0}, {"noise": -1.0}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            train(one_step(), body, epochs=1, **wrong)


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


def test_tensorboard(body, one_step, tmp_path):
    pytest.importorskip("tensorboard")
    train(one_step(), body, epochs=2, log=tmp_path / "log")
    assert list((tmp_path / "log").glob("events*"))


@pytest.mark.parametrize("written", [0, 3])
def test_a_full_disk_ends_the_curves_and_not_the_training(
    body, one_step, tmp_path, monkeypatch, capfd, written
):
    writers = pytest.importorskip("tensorboard.summary.writer.record_writer")
    writes = iter(range(100))

    def write(*_):
        if next(writes) >= written:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(writers.RecordWriter, "write", write)
    folder, model = tmp_path / "log", one_step()
    options = {"epochs": 20, "optimizer": "adam", "log": folder, "compiled": False}
    if written:
        with pytest.warns(UserWarning, match=f"curves end at .*{folder}: the disk is full"):
            assert train(model, body, **options).epochs == 20
    else:
        with pytest.raises(OSError, match="the disk is full"):
            train(model, body, **options)
    assert "Traceback" not in capfd.readouterr().err


def test_a_map_that_ran_off_to_infinity_does_not_hang(body):
    """J^T J is infinite there, and no damping is larger."""
    model = models.VolumePreservingFeedForward(dim=3, functions="polynomial", degree=12)
    with torch.no_grad():
        model.core.get_submodule("0").coefficients.fill_(1e60)
    states = torch.from_numpy(body.states("train"))
    generator = torch.Generator().manual_seed(0)
    pairs = HeldPairs.of_tensors(states[:, :1], states[:, 1:2])
    optimizer = LevenbergMarquardt(model, pairs, generator=generator)
    assert not optimizer.epoch(0.0) < 1e30
