"""Training a neural integrator on a dataset: one loop for all optimizers."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from vpintegrator.data import Dataset, open_dataset, windows
from vpintegrator.errors import InputError
from vpintegrator.models import Integrator
from vpintegrator.threads import torch_threads
from vpintegrator.training import processes
from vpintegrator.training.checkpoint import load_checkpoint
from vpintegrator.training.compilation import compile_for_training, training_with
from vpintegrator.training.first_order import BATCH, FirstOrder
from vpintegrator.training.gauss_newton import GaussNewton
from vpintegrator.training.history import Budget, History
from vpintegrator.training.levenberg_marquardt import LevenbergMarquardt
from vpintegrator.training.loop import Training
from vpintegrator.training.objective import Objective, relative_error
from vpintegrator.training.quasi_newton import QuasiNewton

DEFAULT_SECONDS = 150.0
CHECKPOINT_SECONDS = 30.0
LARGEST_MATRIX = 5_000  # parameters for which auto takes Levenberg-Marquardt
_VALIDATION_WINDOWS = 1000  # judged every epoch, which must stay cheap beside the epoch itself

_ALGORITHMS: dict[str, Any] = {
    "levenberg-marquardt": LevenbergMarquardt,
    "gauss-newton": GaussNewton,
    "adam": partial(FirstOrder, name="adam"),
    "adamw": partial(FirstOrder, name="adamw"),
    "l-bfgs": QuasiNewton,
}
OPTIMIZERS = ("auto", *_ALGORITHMS)


def train(
    model: Integrator,
    dataset: Dataset | str | os.PathLike[str],
    *,
    optimizer: str = "auto",
    seconds: float | None = None,
    epochs: int | None = None,
    target: float | None = None,
    loss: str = "mean-square",
    horizon: int = 1,
    noise: float = 0.0,
    restarts: int = 1,
    batch: int | None = None,
    learning_rate: float | None = None,
    seed: int = 0,
    normalise: bool = True,
    device: str | torch.device = "cpu",
    threads: int = 1,
    compiled: bool | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    resume: bool = False,
    log: str | os.PathLike[str] | None = None,
    progress: Callable[[History], None] | None = None,
) -> History:
    """Train ``model`` in place; it ends with the weights of least validation error.

    Parameters
    ----------
    model
        A neural integrator for states of the dataset's dimension.
    dataset
        A dataset or the path of one. Windows of its group ``train`` are used.
    optimizer
        ``levenberg-marquardt``, ``gauss-newton`` (the same without matrices), ``adam``, ``adamw``,
        ``l-bfgs``, or ``auto``: in double precision the first up to 5,000 parameters and the
        second beyond, in single precision Adam.
    seconds, epochs, target
        The budget: training ends when either is used up, or at a validation error of ``target``.
        150 seconds if neither of the first two is given.
    loss, horizon, noise
        What is minimised, see :class:`vpintegrator.training.objective.Objective`.
    restarts
        With more than one, half of the budget goes to that many trials from different random
        weights, and the best of them gets the other half.
    batch
        Windows in a step; each optimizer has a default.
    learning_rate
        Of Adam and AdamW, at the start.
    seed
        Of the choice and order of windows, and of the weights of restarts.
    normalise
        Set the model's normalisation to mean and standard deviation of the training states.
    device
        Where to train; the model stays there.
    threads
        Of torch on the CPU. One is the fastest for models as small as these, see
        :func:`vpintegrator.threads.torch_threads`.
    compiled
        Whether residuals and their derivatives are computed as machine code (see
        ``vpintegrator.compiled``), equal up to rounding and some ten times faster, after seconds of
        compilation when a model is seen for the first time. By default where that is possible and
        takes less than a fifth of the budget in epochs, or half of that in seconds; in the latter
        case training begins in PyTorch meanwhile. Gauss-Newton and GPUs have PyTorch only.
    checkpoint, checkpoint_seconds
        File to write at these intervals and at an interrupt. It is removed when the budget is used
        up.
    resume
        Go on from the checkpoint. Where the budget is in epochs, the result is the same to the
        last bit as without the interruption.
    log
        Folder for TensorBoard.
    progress
        Called after every epoch.

    Returns
    -------
    History
        An interrupt (Ctrl-C) ends training early, and is noted there.

    Raises
    ------
    InputError
        If model and dataset do not fit, or an argument is wrong.
    """
    dataset = dataset if isinstance(dataset, Dataset) else open_dataset(dataset)
    if dataset.dim != model.dim:
        raise InputError(
            f"the model is for states of {model.dim} components, but {dataset.path} holds states "
            f"of {dataset.dim}; make the model with dim={dataset.dim}"
        )
    if seconds is None and epochs is None:
        seconds = DEFAULT_SECONDS
    for key, value in (("seconds", seconds), ("epochs", epochs), ("target", target)):
        if value is not None and not 0 < value < float("inf"):
            raise InputError(f"{key} = {value} must be positive")
    if restarts < 1:
        raise InputError(f"restarts = {restarts} must be at least 1")
    if resume and checkpoint is None:
        raise InputError("resume needs the name of the checkpoint")
    name = _choose(optimizer, model)
    if learning_rate is not None and not name.startswith("adam"):
        raise InputError(f"learning_rate is an option of adam and adamw; {name} has none")
    options: dict[str, Any] = {} if learning_rate is None else {"learning_rate": learning_rate}
    objective = Objective(loss, horizon, noise)

    start = time.perf_counter()
    states = dataset.states("train")
    if normalise:
        # states that were not observed are NaN
        mean, deviation = (np.mean, np.std) if dataset.is_complete else (np.nanmean, np.nanstd)
        shift, scale = mean(states, (0, 1)), deviation(states, (0, 1))
        model.set_normalisation(shift, np.where(scale > 0, scale, 1.0))
    model.to(device)
    pairs = _pairs(model, states, horizon)
    held_out = _held_out(model, dataset)
    # groups that are cut in time differ in length: what does not fit is said before any work
    tested = bool(dataset.shapes.get("test", (0,))[0])
    test = _pairs(model, dataset.states("test"), 1) if tested else None
    history = History(name, seed, sum(p.numel() for p in model.parameters()))
    identity = {
        "architecture": model.name,
        "arguments": model.arguments,
        "dataset": dataset.fingerprint,
        "optimizer": name,
        "objective": asdict(objective),
        "seed": seed,
    }

    saved = load_checkpoint(checkpoint, identity) if resume and checkpoint else None
    # as before, so that the result is the same, unless that is impossible here
    again = saved is not None and saved.history.compiled
    fixed = saved is not None and epochs is not None
    machine, interrupted = None, False
    try:
        machine = compile_for_training(
            model,
            objective,
            name,
            seconds=math.inf if again else seconds,
            epochs=None if again else epochs,
            repeatable=epochs is not None,
            batches=len(pairs[0]) / (batch or BATCH) if name.startswith("adam") else 1,
            threads=threads,
            compiled=False if fixed and not again and compiled is None else compiled,
        )
    except KeyboardInterrupt:  # ends training before its first epoch
        interrupted = True
    if machine is not None:
        options["compiled"] = machine

    def begin(candidate: Integrator, its_history: History) -> Training:
        nonlocal interrupted
        try:
            return prepare(candidate, its_history)
        except KeyboardInterrupt:  # it is prepared all the same, for what is written at the end
            interrupted, its_history.stopped_by = True, "interrupt"
            if machine is not None:
                machine.stop()
            return prepare(candidate, its_history)

    def prepare(candidate: Integrator, its_history: History) -> Training:
        generator = torch.Generator().manual_seed(seed)
        algorithm = _ALGORITHMS[name](
            candidate, *pairs, objective, batch=batch, generator=generator, **options
        )
        return Training(candidate, algorithm, generator, held_out, its_history, machine)

    budget = Budget(seconds, epochs, target)
    with torch_threads(threads), _summary_writer(log) as writer, training_with(machine):
        if saved is None and restarts > 1 and not interrupted:
            trial = budget.part(0.5 / restarts)
            _take_best_start(model, begin, trial, restarts, seed)
            # the seconds count from the call on, the epochs from here on
            rest = epochs and max(epochs - restarts * (trial.epochs or 0), 1)
            budget = Budget(seconds, rest, target)
        training = begin(model, history)
        if saved is not None:
            training.restore(saved)
        if interrupted:
            training.history.stopped_by = "interrupt"
        else:
            training.history.compiled = machine is not None and machine.ready
        written = time.perf_counter()

        def after_epoch(training: Training) -> None:
            nonlocal written
            h = training.history
            h.compiled = machine is not None and machine.ready
            if writer is not None:
                writer.add_scalar("error/training", h.training_error[-1], h.epochs)
                writer.add_scalar("error/validation", h.validation_error[-1], h.epochs)
            if checkpoint and time.perf_counter() - written >= checkpoint_seconds:
                _write_checkpoint(training, identity, checkpoint)
                written = time.perf_counter()
            if progress:
                progress(h)

        training.run(budget, after_epoch, start if saved is None else None)
        history = training.history
        if checkpoint and history.stopped_by == "interrupt":
            _write_checkpoint(training, identity, checkpoint)
        elif checkpoint and processes.rank() == 0:
            Path(checkpoint).unlink(missing_ok=True)
        if test is not None:
            history.test_error = relative_error(model, *test)
    model.metadata.update(
        {
            "system": dataset.system.text,
            "system_name": dataset.system.name,
            "parameters": json.dumps(dataset.parameters),
            "step": repr(dataset.step),
            "dataset": os.fspath(dataset.path),
            "dataset_fingerprint": dataset.fingerprint,
            "training": json.dumps(history.summary()),
        }
    )
    return history


def _take_best_start(
    model: Integrator,
    begin: Callable[[Integrator, History], Training],
    budget: Budget,
    restarts: int,
    seed: int,
) -> None:
    """Try several random starts for a while and give ``model`` the weights of the best."""
    trials = []
    for k in range(restarts):
        candidate = model
        if k > 0:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed + k)
                candidate = type(model)(**model.arguments, dtype=model.scale.dtype)
            candidate.set_normalisation(model.shift, model.scale)
            _freeze_alike(candidate, model)
            candidate.to(model.scale.device)
        trial = begin(candidate, History("", seed + k, 0))
        trial.run(budget)
        trials.append(trial)
        if trial.history.stopped_by in ("interrupt", "target"):
            break
    best = min(trials, key=lambda trial: trial.history.best_validation_error)
    model.load_state_dict(best.best)


def _freeze_alike(candidate: Integrator, model: Integrator) -> None:
    """Weights that are not trained are the same in every trial."""
    for new, old in zip(candidate.parameters(), model.parameters(), strict=True):
        if not old.requires_grad:
            new.requires_grad_(False).data.copy_(old)


def _write_checkpoint(
    training: Training, identity: dict[str, Any], path: str | os.PathLike[str]
) -> None:
    checkpoint = training.checkpoint(identity)
    if processes.rank() == 0:
        checkpoint.save(path)


@contextmanager
def _summary_writer(folder: str | os.PathLike[str] | None) -> Iterator[Any]:
    """A TensorBoard writer, if there is a folder to write to."""
    if folder is None or processes.rank() > 0:
        yield None
        return
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise InputError(
            f"log = {folder}: TensorBoard is not installed; pip install tensorboard"
        ) from None
    writer = SummaryWriter(os.fspath(folder))
    try:
        yield writer
    finally:
        writer.close()


def _choose(optimizer: str, model: Integrator) -> str:
    if optimizer not in OPTIMIZERS:
        raise InputError(f"optimizer = '{optimizer}' is none of {', '.join(OPTIMIZERS)}")
    if optimizer != "auto":
        return optimizer
    if any(p.dtype != torch.float64 for p in model.parameters()):
        return "adam"
    count = sum(p.numel() for p in model.parameters())
    return "levenberg-marquardt" if count <= LARGEST_MATRIX else "gauss-newton"


def _pairs(
    model: Integrator, states: np.ndarray, horizon: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Windows and what follows them, as tensors of the model's dtype on its device."""
    inputs, targets = windows(states, model.window, model.prediction_window, horizon)
    return torch.from_numpy(inputs).to(model.scale), torch.from_numpy(targets).to(model.scale)


def _held_out(model: Integrator, dataset: Dataset) -> tuple[torch.Tensor, torch.Tensor]:
    if not dataset.shapes.get("validation", (0,))[0]:
        raise InputError(
            f"{dataset.path} has no validation trajectories, by which the best weights are chosen; "
            "generate it with some in [trajectories]"
        )
    inputs, targets = _pairs(model, dataset.states("validation"), 1)
    chosen = torch.linspace(0, len(inputs) - 1, min(len(inputs), _VALIDATION_WINDOWS)).long()
    return inputs[chosen], targets[chosen]
