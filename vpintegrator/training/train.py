"""Training of a model on a dataset: one loop for all optimizers."""

from __future__ import annotations

import math
import os
import time
import warnings
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Literal

import torch

from vpintegrator.arguments import called, one_of, whole
from vpintegrator.compiled import CompiledResidual, NotCompilable, NotWorthIt
from vpintegrator.data import Dataset
from vpintegrator.errors import InputError
from vpintegrator.models import Model, wrap
from vpintegrator.models.iteration import (
    check_precision,
    leave_inference,
    with_gradients,
)
from vpintegrator.models.stored import History
from vpintegrator.models.wrapped import WithParameters, WrappedModel, in_training
from vpintegrator.nn.feed_forward import AffineMap
from vpintegrator.nn.layer import LARGEST_SEED, uses_batch_statistics
from vpintegrator.runtime.devices import wanted_on
from vpintegrator.runtime.interrupts import (
    BEYOND,
    TimeIsUp,
    held_back,
    stopping,
    time_left,
    unhurried,
    until,
)
from vpintegrator.runtime.threads import torch_threads
from vpintegrator.training.checkpoint import Checkpoint
from vpintegrator.training.initial_scheme import start_as_splitting
from vpintegrator.training.optimizers import (
    BY_NAME,
    LBFGS,
    LinearSolve,
    ManifoldAdam,
    Optimizer,
    PublishedAdam,
)
from vpintegrator.training.options import Budget, TrainingOptions
from vpintegrator.training.residuals import Loss, relative_error
from vpintegrator.training.results import Show, training_bar
from vpintegrator.training.stiefel_adam import check_projections
from vpintegrator.training.training_data import TrainingData

_EXPLODED = 100.0  # times the best error so far
_ROLLBACKS = 5
_IMPROVED = 0.9  # times the error before: what a gain is for ``patience``
_BY_MATRIX = 5_000  # parameters up to which auto takes Levenberg-Marquardt
# fraction of the training time that the compiler may take: the rest as machine code does several
# times what all of it does in PyTorch (ten times for vpt of 414 parameters)
_COMPILER_SHARE = 0.5
_SHORTEST = 2.0  # seconds of training: preparing takes some tenths even if the cache has it
_WITHOUT_EFFECT = {"batch", "loss", "horizon", "noise", "initial_scheme", "device"}  # on a solve


@with_gradients
def train(
    model: Model | torch.nn.Module,
    dataset: TrainingData | Dataset | str | os.PathLike[str],
    *,
    equations: bool = False,
    recipe: Literal["published"] | None = None,
    optimizer: str = "auto",
    seconds: float | None = None,
    epochs: int | None = None,
    target: float | None = None,
    patience: int | None = None,
    batch: int | None = None,
    learning_rate: float | None = None,
    loss: str | Loss = "mean-square",
    horizon: int = 1,
    noise: float = 0.0,
    initial_scheme: Literal["auto", "none"] = "auto",
    normalise: bool = True,
    seed: int = 0,
    device: str | torch.device = "cpu",
    compiled: bool | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Show | bool | None = None,
) -> History:
    r"""Train ``model`` in place; it ends with the weights of least validation error.

    Parameters
    ----------
    model
        A neural integrator for states of the dataset's dimension; or a torch module that maps
        states (n, dim) to the next ones, whose parameters are trained in place (see
        :func:`vpintegrator.wrap` for windows) and whose layers keep their modes, training or
        evaluation.
    dataset
        A dataset or the path of one. Windows of its group ``train`` are used; of groups of more
        than 16 MiB of states random parts are read, and more as they are needed.
    equations
        Whether the equations of the dataset's system may be used: for states within a step, initial
        splitting schemes, and coefficients of families.
    recipe
        ``published`` for the training of arXiv 2312.11166: Adam with batches of 16,384 windows, a
        rate that falls exponentially from 1e-2 to 1e-6 over the budget, the relative error of a
        batch as its loss, and no normalisation. It decides ``optimizer``, ``loss`` and
        ``normalise``. The networks are ``published(dim)`` of their classes, in single precision.
    optimizer
        Name out of ``vpintegrator.training.OPTIMIZERS``, or ``auto``. In double precision ``auto``
        is Levenberg-Marquardt up to 5,000 parameters. Beyond them, in single precision and with
        batch norm it is Adam. Generating functions and linear maps have a linear solve.
        ``stiefel-adam`` moves projections of multihead attention on the Stiefel manifold by
        :class:`vpintegrator.training.StiefelAdam`, and all other weights by Adam.
    seconds, epochs, target, patience
        Limits: training ends when either of the first two is used up, at a validation error of
        ``target``, or when that error has not fallen by a tenth in so many epochs as ``patience``
        says. Without seconds and epochs it takes 150 seconds. An epoch that goes on for more than a
        tenth of the seconds beyond them is left; of a first epoch that is left the weights are kept
        that it has reached (with Adam those of its steps so far).
    batch
        Windows in a step; each optimizer has a default.
    learning_rate
        Initial learning rate of Adam.
    loss
        ``mean-square``: squares of errors in units of the model's normalisation, so that every
        component counts alike. ``relative``: in the units of the states, as in the relative L2
        error. Or a function of one's own: of predicted and true states (window, time, dim), it
        returns a tensor of one number. Optimizers that follow gradients minimise the mean of that
        over the batches, in PyTorch. The best weights are still those of least validation error.
    horizon, noise
        Number of predictions in a row whose errors count, and standard deviation of noise on the
        inputs in units of the normalisation. Both teach the model what happens on its own windows,
        see :class:`vpintegrator.training.residuals.Objective`.
    initial_scheme
        ``auto``: polynomials begin as Strang splitting, if it errs less than their own weights, see
        :func:`vpintegrator.training.initial_scheme.start_as_splitting`. ``none``: as they are.
    normalise
        Set the model's normalisation to mean and standard deviation of the training states.
    seed
        Seed of the choice and order of windows.
    device
        Device of the training, on which the model remains.
    compiled
        Whether residuals and their derivatives are computed as machine code (see
        ``vpintegrator.compiled``), equal up to rounding and some ten times faster, after seconds of
        compilation when a model is seen for the first time. By default where that is possible and
        takes less than half of the seconds; ``not_compiled`` of the history says why not, and
        ``compiler_seconds`` how long the compiler took.
    checkpoint
        File in which the state of the training is kept. Where it exists the training goes on from
        it, bit for bit as if it had not been interrupted, up to the same limits. Optimizers that
        follow gradients keep one.
    progress
        Called after every epoch; or True for a bar on standard error, False for none. By default
        there is a bar where standard error is a terminal.

    Returns
    -------
    History
        Ctrl-C and SIGTERM end training early, with the best weights so far, and are noted there as
        ``stopped_by``. The test error is that of the test group. A warning says where the model is
        not to be relied on.

    Raises
    ------
    InputError
        If model and dataset do not fit, an argument is wrong, or no validation error was finite.
    KeyboardInterrupt
        If it comes before the end of the first epoch.

    Examples
    --------
    >>> dataset = vp.generate("pendulum", "swing.h5", count=20, steps=20, overwrite=True)
    >>> model = vp.models.VolumePreservingFeedForward(dim=2, depth=2, functions="polynomial")
    >>> history = vp.train(model, dataset, epochs=20)
    >>> history.best_validation_error < 1e-3
    True
    """
    budget = Budget(seconds, epochs, target)
    options = TrainingOptions(
        recipe=recipe,
        optimizer=optimizer,
        batch=batch,
        learning_rate=learning_rate,
        loss=loss,
        horizon=horizon,
        noise=noise,
        initial_scheme=initial_scheme,
        normalise=normalise,
        device=str(device),
        compiled=compiled,
    )
    data = TrainingData.of(dataset, equations)
    model = _as_model(model, data)
    data.check(model)
    if progress is not None and not isinstance(progress, bool):
        called("progress", progress, "a function, true or false")
    seed = whole("seed", seed, 0, LARGEST_SEED)
    patience = None if patience is None else whole("patience", patience)
    kept = None if checkpoint is None else Checkpoint(checkpoint)
    with held_back() as signals:
        if data.has("test"):  # groups that are cut in time differ in length
            data.pairs(model, "test")
        history = optimise(
            *(model, data, budget, options),
            patience=patience,
            seed=seed,
            checkpoint=kept,
            progress=progress,
        )
        if not math.isfinite(history.best_validation_error):
            raise InputError(
                f"{model.name} has learned nothing: its validation error was not finite after "
                f"any of {history.epochs} epochs; give more seconds, or try another model, dataset "
                "or learning rate"
            )
        data.judge(model, history)
        if signals:  # also one that came after the last epoch
            history.stopped_by = "interrupt"
            signals.forget()
    if history.warning:
        warnings.warn(history.warning, stacklevel=3)
    return history


def optimise(
    model: Model,
    data: TrainingData,
    budget: Budget,
    options: TrainingOptions,
    *,
    patience: int | None = None,
    seed: int = 0,
    checkpoint: Checkpoint | None = None,
    progress: Show | bool | None = None,
) -> History:
    """Train a model in place within a budget; it ends with the weights of least validation error.

    Parameters
    ----------
    model, data
        Model and training data that fit together.
    budget, options
        Limits, and how the model is trained.
    patience, seed, progress
        Arguments of :func:`train`.
    checkpoint
        State that the training goes on from, and that it keeps.

    Raises
    ------
    InputError
        If an option does not suit the model.
    KeyboardInterrupt
        If it comes before the end of the first epoch.
    """
    optimizer = choose_optimizer(model, options)
    objective = options.objective
    parameters = sum(p.numel() for p in model.parameters())
    history = History(optimizer.name, seed, parameters, device=options.device)
    guard = in_training(model) if isinstance(model, WrappedModel) else nullcontext()
    with held_back() as signals, guard:
        if options.normalise:
            data.normalise(model)
            if model.record.history is None and options.initial_scheme == "auto":  # untrained
                with stopping(), budget.hold(BEYOND):
                    start_as_splitting(model, data)
        model.to(options.device)
        held_out = data.held_out(model)
        scale = data.error_scale
        if isinstance(model, WrappedModel):
            model.check_trainable(held_out.inputs)
        best = _weights(model)

        with (
            stopping() as end,
            budget.hold(BEYOND),
            torch_threads(),
            training_bar(progress, budget.seconds) as update,
        ):
            update(description=model.name)
            pairs = data.pairs(model, horizon=objective.horizon)
            size = options.batch or optimizer.default_batch(model, objective)
            # attention of PyTorch takes longer with the square of the window
            seconds_of_step = optimizer.step_seconds * model.window**2
            steps = optimizer.steps(len(pairs), size) * (budget.epochs or math.inf)
            expected = min(steps * seconds_of_step, budget.left)
            machine = compile_residual(model, optimizer, options, expected, history)
            solver = optimizer(
                model,
                pairs,
                objective,
                batch=size,
                learning_rate=options.learning_rate,
                generator=torch.Generator().manual_seed(seed),
                compiled=machine,
                data=data,
            )
            model.eval()
            if model.record.history is not None:  # trained before: those weights may stay the best
                history.best_validation_error = relative_error(model, *held_out, scale=scale)
            earlier = 0.0  # seconds of the training that was interrupted
            if checkpoint is not None:
                checkpoint.identify(model, held_out.inputs, budget, options)
                best = checkpoint.resume(model, solver, history) or best
                earlier = history.used
            improved_epoch = 0
            improved_error = math.inf
            for epoch, error in zip(history.epoch, history.validation_error, strict=True):
                if error < _IMPROVED * improved_error:
                    improved_epoch = epoch
                    improved_error = error

            while not history.stopped_by:
                if history.best_validation_error <= budget.target:
                    history.stopped_by = "target"
                elif budget.epochs and history.epochs >= budget.epochs:
                    history.stopped_by = "epochs"
                elif history.used >= budget.seconds:
                    history.stopped_by = "seconds"
                elif patience and history.epochs - improved_epoch >= patience:
                    history.stopped_by = "patience"
                if checkpoint is not None and history.epochs:
                    ends = bool(history.stopped_by)
                    checkpoint.note(model, best, solver, history, last=ends)
                if history.stopped_by:
                    continue

                distance = solver.epoch(history.share)  # of windows in use, in units of the states
                training_error = distance / (scale.spread or 1.0)
                error = relative_error(model, *held_out, compiled=machine, scale=scale)
                before = history.best_validation_error
                with held_back():  # the best error and the best weights belong together
                    if history.add(earlier + budget.used, training_error, error):
                        best = _weights(model)
                if error < _IMPROVED * improved_error:
                    improved_epoch = history.epochs
                    improved_error = error

                if math.isfinite(training_error + error) and error < _EXPLODED * max(before, 0.01):
                    solver.observe(training_error, error)
                elif history.rollbacks < _ROLLBACKS:
                    history.rollbacks += 1
                    model.load_state_dict(best)
                    solver.roll_back()
                else:
                    history.stopped_by = "divergence"
                history.stopped_by = history.stopped_by or solver.finished
                history.windows = solver.windows
                history.share = budget.share(history.epochs, history.used)
                update(history, history.share, error=f"{history.best_validation_error:.1e}")
                if callable(progress):
                    progress(history)

        history.stopped_by = end.by or history.stopped_by
        if checkpoint is not None:
            checkpoint.write(history)
        if end.by == "interrupt" and not history.epochs:
            model.load_state_dict(best)
            raise KeyboardInterrupt
        is_first = math.isinf(history.best_validation_error) and not history.epochs
        if is_first and end.by == "seconds":  # the first epoch was left
            best = _weights(model)
        model.load_state_dict(best)
        model.eval()
        if math.isinf(history.best_validation_error):
            with unhurried():
                error = relative_error(model, *held_out, scale=scale)
            history.best_validation_error = error if math.isfinite(error) else math.inf
        if math.isfinite(history.best_validation_error):
            model.record = replace(model.record, history=history)
        if signals:  # also one that came after the last epoch
            history.stopped_by = "interrupt"
            signals.forget()
    return history


def choose_optimizer(model: Model, options: TrainingOptions) -> type[Optimizer]:
    """Return the class of an optimizer, by the kind and the size of the model if none is named.

    Raises
    ------
    InputError
        If there is no such optimizer, it cannot train such a model, or an option has no effect.
    """
    name = options.optimizer
    one_of("optimizer", name, ("auto", *BY_NAME))
    in_batches = uses_batch_statistics(model)
    if name == "auto":
        count = sum(p.numel() for p in model.parameters() if p.requires_grad)
        is_double = all(p.dtype == torch.float64 for p in model.parameters())
        is_small = is_double and not in_batches and count <= _BY_MATRIX
        name = "levenberg-marquardt" if is_small and isinstance(options.loss, str) else "adam"
        if model.linear_in_parameters or isinstance(model.core, AffineMap):
            name = "linear"
    optimizer = PublishedAdam if options.recipe else BY_NAME[name]
    able = ", or ".join(each.name for each in BY_NAME.values() if each.follows_gradients)
    if options.learning_rate is not None and not optimizer.follows_gradients:
        raise InputError(f"learning_rate is an option of {able}; {optimizer.name} has none")
    if optimizer is ManifoldAdam:
        check_projections(model, model.name)
    if not isinstance(options.loss, str) and not (
        optimizer.follows_gradients or optimizer is LBFGS
    ):
        raise InputError(
            f"{optimizer.name} minimises squares of residuals, and a loss of your own is a number; "
            f"use {able}, or l-bfgs"
        )
    if optimizer is LinearSolve and (given := options.changed.keys() & _WITHOUT_EFFECT):
        raise InputError(
            f"{model.name} is trained by one linear solve, on which {', '.join(sorted(given))} has "
            "no effect; leave it out, or name an optimizer"
        )
    if in_batches and not optimizer.follows_gradients:
        raise InputError(
            f"{optimizer.name} takes residuals window by window, but batch norm computes with the "
            f'statistics of a batch; use {able}, or norm = "layer"'
        )
    return optimizer


def compile_residual(
    model: Model,
    optimizer: type[Optimizer],
    options: TrainingOptions,
    expected: float,
    history: History,
) -> CompiledResidual | None:
    """Compile the residuals of a model if wanted, or by default if it saves time.

    Training waits for the compiler, half of the expected seconds at most. Without a limit in
    seconds the choice depends on nothing but the arguments, so that training can be repeated to
    the last bit.

    Parameters
    ----------
    model, optimizer, options
        Model, class of the optimizer, and options of the training.
    expected
        Seconds that training takes in PyTorch, or those that are left.
    history
        History to which the result and its seconds are added.

    Returns
    -------
    CompiledResidual or None
        Machine code, or None for a training in PyTorch.

    Raises
    ------
    InputError
        If it is wanted and impossible. Where it would only pay, a warning says why it is not done.
    """
    if options.compiled is False:
        return None
    wanted = wanted_on(model.scale.device.type, options.compiled)
    if wanted is False:
        return None
    about = f"the training takes about {expected:.{0 if expected >= _SHORTEST else 1}f} seconds"
    refusal = "" if optimizer.compiles else f"{optimizer.name} runs in PyTorch only"
    if not isinstance(options.loss, str):
        refusal = "a loss of your own is computed in PyTorch"
    if uses_batch_statistics(model):
        refusal = "models with batch norm train in PyTorch only"
    if wanted and refusal:
        raise InputError(f"{refusal}; leave out compiled")
    if refusal or (not wanted and expected < _SHORTEST):
        history.not_compiled = refusal or f"{about}, too few to compile it"
        return None

    def worth(needed: float, cached: bool) -> bool:
        return bool(wanted or needed < _COMPILER_SHARE * expected)  # cached or not, to the last bit

    objective = options.objective
    scale = model.coordinates.state_scale
    units = 1 / scale if objective.loss == "mean-square" else torch.ones_like(scale)
    weights = torch.cat([units, units.new_ones(len(model.ranges))])  # parameters count alike
    traced = WithParameters(model) if model.ranges else model
    start = time.perf_counter()
    share = 1.0 if wanted else _COMPILER_SHARE
    try:
        with until(start + share * expected if time_left() < math.inf else math.inf):
            machine = CompiledResidual(
                *(traced, weights.numpy()),
                chained=objective.horizon > 1,
                threads=torch.get_num_threads(),
                worth=worth,
            )
    except TimeIsUp:
        if time_left() <= 0:
            raise
        history.not_compiled = f"the compiler took more than half of the time: {about}"
    except NotWorthIt as reason:
        history.not_compiled = f"{reason}: {about}"
    except NotCompilable as reason:
        if wanted:
            raise InputError(f"{model.name} cannot be compiled: {reason}") from None
        warnings.warn(f"{model.name} trains in PyTorch, not compiled: {reason}", stacklevel=4)
        history.not_compiled = str(reason)
    else:
        history.compiled = True
        history.compiler_seconds = time.perf_counter() - start
        return machine
    return None


def _weights(model: Model) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def _as_model(model: Any, data: TrainingData) -> Model:
    """Return the model, or one that shares the parameters of a torch module."""
    if not isinstance(model, Model):  # families have no one step
        model = wrap(model, data.dataset.dim, data.dataset.step)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise InputError(f"{model.name} has no parameters to train")
    check_precision(model)
    leave_inference(model)
    return model
