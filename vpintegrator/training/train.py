"""Training a neural integrator on a dataset: one loop for all optimizers."""

from __future__ import annotations

import json
import math
import os
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from vpintegrator.claim import claim
from vpintegrator.data import Dataset, open_dataset, windows
from vpintegrator.dynamics.region import Region
from vpintegrator.errors import InputError
from vpintegrator.files import check_output
from vpintegrator.interrupts import held_back
from vpintegrator.models import Integrator
from vpintegrator.nn.encoder import uses_batch_statistics
from vpintegrator.threads import torch_threads
from vpintegrator.training import processes
from vpintegrator.training.arguments import LARGEST_SEED, not_negative, positive, whole
from vpintegrator.training.checkpoint import Checkpoint, load_checkpoint, stored_identity
from vpintegrator.training.choice import BY_TIME, by_size, by_time
from vpintegrator.training.compilation import compile_for_training, training_with
from vpintegrator.training.first_order import BATCH, FirstOrder
from vpintegrator.training.gauss_newton import GaussNewton
from vpintegrator.training.history import Budget, History
from vpintegrator.training.levenberg_marquardt import LevenbergMarquardt
from vpintegrator.training.log import logging_to
from vpintegrator.training.loop import Training
from vpintegrator.training.objective import Objective, relative_error
from vpintegrator.training.output import save_somewhere, sentence
from vpintegrator.training.progress import shown
from vpintegrator.training.quasi_newton import QuasiNewton
from vpintegrator.training.stages import Stages

DEFAULT_SECONDS = 150.0
CHECKPOINT_SECONDS = 30.0
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
    patience: int | None = None,
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
    output: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    log: str | os.PathLike[str] | None = None,
    progress: Callable[[History], None] | bool | None = None,
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
        ``l-bfgs``, or ``auto``: in double precision the first up to 5,000 parameters, unless
        the seconds given are too few for it, as a part of an epoch tells, and else the second; in
        single precision or with batch norm Adam.
    seconds, epochs, target, patience
        The budget: training ends when either is used up, at a validation error of ``target``, or
        when that error has not fallen by a tenth in so many epochs as ``patience`` says.
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
        File to write at these intervals and at an interrupt, of no more than one process at a time.
        It is removed when the budget is used up and the model is in its file. Where it cannot be
        written there is a warning, and training goes on.
    resume
        Go on from the checkpoint, or begin where there is none. The model's own weights are
        replaced. What changes the mathematics must be as before: model, dataset, optimizer, its
        options, loss, seed, and the weights that are trained. The budget, ``checkpoint_seconds``,
        ``log``, ``threads``, ``device`` and ``compiled`` may change, the last three with results
        that are equal to rounding; without them, and where the budget is in epochs, they are the
        same to the last bit as without the interruption. A budget counts from the beginning;
        without any, the former one goes on.
    output, overwrite
        File for the trained model, and whether it may exist. Where it cannot be written in the
        end, the model is kept in another place, which the error names.
    log
        Folder for TensorBoard.
    progress
        Called after every epoch; or True for a bar on standard error, False for none. By default
        there is a bar where standard error is a terminal.

    Returns
    -------
    History
        An interrupt (Ctrl-C) ends training early, and is noted there; so is the loss of one of
        several processes. If not even an epoch was done by then, no file is written.

    Raises
    ------
    InputError
        If model and dataset do not fit, an argument is wrong, the checkpoint is damaged or of
        another training, or a file cannot be written.
    KeyboardInterrupt
        If it comes before training has begun, or while the result is written (which is finished).
    """
    dataset = dataset if isinstance(dataset, Dataset) else open_dataset(dataset)
    if dataset.dim != model.dim:
        raise InputError(
            f"the model is for states of {model.dim} components, but {dataset.path} holds states "
            f"of {dataset.dim}; make the model with dim={dataset.dim}"
        )
    given = Budget(
        None if seconds is None else positive("seconds", seconds),
        None if epochs is None else whole("epochs", epochs),
        None if target is None else positive("target", target),
        None if patience is None else whole("patience", patience),
    )
    first, system = processes.rank() == 0, dataset.system
    if first and model.volume_preserving and not (system.divergence_free or system.is_measured):
        warnings.warn(
            f"the flow of {system.name} changes volumes (div f is not zero), which {model.name} "
            "never does; a model without structure fits better: resnet, or transformer",
            stacklevel=2,
        )
    restarts, seed = whole("restarts", restarts), whole("seed", seed, 0, LARGEST_SEED)
    threads = whole("threads", threads)
    batch = None if batch is None else whole("batch", batch)
    if checkpoint_seconds != math.inf:
        checkpoint_seconds = not_negative("checkpoint_seconds", checkpoint_seconds)
    if resume and checkpoint is None:
        raise InputError("resume needs the name of the checkpoint")
    name = _choose(optimizer, model)
    if uses_batch_statistics(model):
        compiled = _without_compilation(name, compiled)
    options: dict[str, Any] = {}
    if learning_rate is not None:
        options["learning_rate"] = positive("learning_rate", learning_rate)
        if not name.startswith("adam"):
            raise InputError(f"learning_rate is an option of adam and adamw; {name} has none")
    objective = Objective(loss, horizon, noise)
    if output is not None and first:
        check_output(output, overwrite)
    claimed = checkpoint if checkpoint is not None else output

    start = time.perf_counter()
    with claim(claimed) if claimed is not None and first else nullcontext():
        states = dataset.states("train")
        if normalise:
            normalise_by(model, states)
        model.to(device)
        pairs = window_pairs(model, states, objective.horizon)
        held_out = _held_out(model, dataset)
        # groups that are cut in time differ in length: what does not fit is said before any work
        tested = bool(dataset.shapes.get("test", (0,))[0])
        test = window_pairs(model, dataset.states("test"), 1) if tested else None
        identity = _identity(model, dataset, name, objective, normalise) | {
            "batch": batch,
            "learning rate": options.get("learning_rate"),
            "restarts": restarts,
            "seed": seed,
        }
        saved = None
        if resume and checkpoint is not None and Path(checkpoint).exists():
            if optimizer == "auto" and name in BY_TIME:
                stored = stored_identity(checkpoint).get("optimizer")
                name = identity["optimizer"] = stored if stored in BY_TIME else name
            saved = load_checkpoint(checkpoint, identity, model)
            model.load_state_dict(saved.moment.model)
        budget = _budget(given, saved, checkpoint)

        machine, ending = None, ""

        def prepare(candidate: Integrator) -> Training:
            generator = torch.Generator().manual_seed(seed)
            algorithm = _ALGORITHMS[name](
                candidate,
                *pairs,
                objective,
                batch=batch,
                generator=generator,
                **options,
                **({} if machine is None else {"compiled": machine}),
            )
            history = History(name, seed, sum(p.numel() for p in model.parameters()))
            history.compiled = machine is not None and machine.ready
            training = Training(candidate, algorithm, generator, held_out, history, machine)
            if "training" in candidate.metadata:  # trained before: nothing may be lost
                training.begin_from(training.best, relative_error(candidate, *held_out))
            return training

        stages = Stages(model, prepare, budget, restarts, seed, start, saved)
        written = time.perf_counter()

        def record() -> None:
            nonlocal written
            if checkpoint is not None and stages.training is not None and first:
                with held_back():
                    _write(stages.checkpoint(identity), checkpoint)
            written = time.perf_counter()

        def after_epoch(training: Training) -> None:
            h = training.history
            h.compiled = machine is not None and machine.ready
            if time.perf_counter() - written >= checkpoint_seconds:
                record()
            if stages.in_trial:
                return
            if note is not None:
                note(h)
            if show is not None:
                show(h)

        try:
            # as before, so that the result is the same, unless that is impossible here
            again = saved is not None and saved.history.compiled
            fixed = saved is not None and budget.epochs is not None
            machine = compile_for_training(
                model,
                objective,
                name,
                seconds=math.inf if again else budget.seconds,
                epochs=None if again else budget.epochs,
                repeatable=budget.epochs is not None,
                batches=len(pairs[0]) / (batch or BATCH) if name.startswith("adam") else 1,
                threads=threads,
                compiled=False if fixed and not again and compiled is None else compiled,
            )
            if saved is not None:
                stages.start = time.perf_counter() - saved.seconds
            with (
                torch_threads(threads),
                logging_to(log) as note,
                shown(progress if first else False) as show,
                training_with(machine),
            ):
                if optimizer == "auto" and saved is None and machine is None:
                    part = budget.part(0.5 / restarts) if restarts > 1 else budget
                    name = by_time(name, model, *pairs, objective, part, batch)
                    identity["optimizer"] = name
                stages.run(after_epoch)
        except KeyboardInterrupt:
            ending = "interrupt"
        except processes.LostProcess:
            ending = "lost process"
        except Exception:
            record()
            raise

        with held_back() as held, torch_threads(threads):
            history = stages.settle(ending) or History(name, seed, 0, stopped_by=ending)
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
                    "region": Region.of_states(states, dataset.system).text,
                    "training": json.dumps(history.summary()),
                }
            )
            if first and not stages.nothing:
                if ending:
                    record()
                if output is not None:
                    save_somewhere(model, output, overwrite)
                if checkpoint is not None and not ending:
                    with suppress(OSError):
                        Path(checkpoint).unlink(missing_ok=True)
            if ending:
                held.forget()  # it asks again for what has been done
    return history


def normalise_by(model: Integrator, states: np.ndarray) -> None:
    """Normalise by mean and standard deviation of states (..., dim); NaN is not observed.

    Deviations are rounded to powers of two, by which dividing and multiplying again is exact: any
    other changes a state by the same part of its last digit in every step, which adds up.
    """
    axes = tuple(range(states.ndim - 1))
    complete = not np.isnan(states).any()
    mean, deviation = (np.mean, np.std) if complete else (np.nanmean, np.nanstd)
    shift, scale = mean(states, axes), deviation(states, axes)
    scale = np.where(scale > 0, scale, 1.0)
    model.set_normalisation(shift, 2.0 ** np.round(np.log2(scale)))


def _identity(
    model: Integrator, dataset: Dataset, optimizer: str, objective: Objective, normalise: bool
) -> dict[str, Any]:
    """What must be the same for a training to be resumed, in JSON's types."""
    own = {"shift": model.shift.tolist(), "scale": model.scale.tolist()}
    return {
        "architecture": model.name,
        "arguments": model.arguments,
        "dtype": str(model.scale.dtype).removeprefix("torch."),
        "start": model.metadata.get("start_fingerprint"),
        "fixed weights": [n for n, p in model.named_parameters() if not p.requires_grad],
        # that of the states may differ by rounding on another machine
        "normalisation": None if normalise else own,
        "dataset": dataset.fingerprint,
        "optimizer": optimizer,
        "objective": asdict(objective),
    }


def _budget(
    given: Budget, saved: Checkpoint | None, checkpoint: str | os.PathLike[str] | None
) -> Budget:
    """The budget to train with: that given, the former one, or the default."""
    budget = given
    if given.seconds is None and given.epochs is None:
        former = saved.budget if saved else Budget()
        budget = replace(
            former,
            target=former.target if given.target is None else given.target,
            patience=former.patience if given.patience is None else given.patience,
        )
        if former.seconds is None and former.epochs is None:
            budget = replace(budget, seconds=DEFAULT_SECONDS)
    if saved is None:
        return budget
    finished = not saved.in_trial and saved.history.stopped_by == "seconds"
    epochs, least = saved.stage.epochs + saved.history.epochs, saved.stage.epochs + 1
    if budget.seconds is not None and saved.seconds >= budget.seconds and not finished:
        used, option = f"{saved.seconds:.1f} seconds", f"seconds = {budget.seconds:g}"
    elif budget.epochs is not None and epochs > max(budget.epochs, least):
        used, option = f"{epochs} epochs", f"epochs = {budget.epochs}"
    else:
        return budget
    raise InputError(
        f"{checkpoint} holds {used} of training, so that {option}, counted from the beginning, "
        "leaves nothing to do; give more, or nothing to go on with the former budget"
    )


def _write(checkpoint: Checkpoint, path: str | os.PathLike[str]) -> None:
    """Write a checkpoint, or warn: that it fails is no reason to lose the training."""
    try:
        checkpoint.save(path)
    except (InputError, OSError) as error:
        warnings.warn(f"there is no new checkpoint, {sentence(error)}", stacklevel=2)


def _choose(optimizer: str, model: Integrator) -> str:
    if optimizer not in OPTIMIZERS:
        raise InputError(f"optimizer = '{optimizer}' is none of {', '.join(OPTIMIZERS)}")
    return by_size(model) if optimizer == "auto" else optimizer


def _without_compilation(optimizer: str, compiled: bool | None) -> bool:
    """How a model is trained that computes with the statistics of batches: one window says none."""
    if not optimizer.startswith("adam"):
        raise InputError(
            f"{optimizer} takes residuals window by window, but batch norm computes with the "
            'statistics of a batch; use adam or adamw, or norm = "layer"'
        )
    if compiled:
        raise InputError("models with batch norm train in PyTorch only; leave out compiled")
    if processes.count() > 1:
        raise InputError(
            'batch norm needs whole batches, so it trains in one process; use norm = "layer"'
        )
    return False


def window_pairs(
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
    inputs, targets = window_pairs(model, dataset.states("validation"), 1)
    chosen = torch.linspace(0, len(inputs) - 1, min(len(inputs), _VALIDATION_WINDOWS)).long()
    return inputs[chosen], targets[chosen]
