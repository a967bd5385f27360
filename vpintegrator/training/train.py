"""Training a neural integrator on a dataset: one call for all optimizers."""

from __future__ import annotations

import os
from typing import Any

import torch

from vpintegrator.arguments import grouped
from vpintegrator.data import Dataset
from vpintegrator.errors import InputError
from vpintegrator.models import Integrator, wrap
from vpintegrator.models.wrapped import check_model, is_own
from vpintegrator.training.compilation import Execution
from vpintegrator.training.history import Budget, History
from vpintegrator.training.method import Method
from vpintegrator.training.objective import Objective
from vpintegrator.training.output import Files
from vpintegrator.training.progress import Show
from vpintegrator.training.trainer import Trainer
from vpintegrator.training.training_data import TrainingData


@grouped(method=Method, budget=Budget, objective=Objective, execution=Execution, files=Files)
def train(
    model: Integrator | torch.nn.Module,
    dataset: TrainingData | Dataset | str | os.PathLike[str],
    *,
    method: Method,
    budget: Budget,
    objective: Objective,
    normalise: bool = True,
    execution: Execution,
    files: Files,
    progress: Show | bool | None = None,
) -> History:
    """Train ``model`` in place; it ends with the weights of least validation error.

    Every argument but the first two is named. The groups ``method``, ``budget``, ``objective``,
    ``execution`` and ``files`` may be given whole as well.

    Parameters
    ----------
    model
        A neural integrator for states of the dataset's dimension; or a torch module that maps
        states (n, dim) to the next ones, whose parameters are trained in place (see
        :func:`vpintegrator.wrap` for windows).
    dataset
        A dataset or the path of one. Windows of its group ``train`` are used; of groups of more
        than 16 MiB of states random parts are read, and more as they are needed.
    optimizer
        Name out of ``vpintegrator.training.OPTIMIZERS``, or ``auto``. In double precision ``auto``
        is Levenberg-Marquardt up to 5,000 parameters, beyond them Gauss-Newton (the same method
        without matrices). In single precision or with batch norm ``auto`` is Adam. If the seconds
        do not suffice for eight epochs of Levenberg-Marquardt, by a timed part of an epoch,
        ``auto`` is Gauss-Newton if its epochs take less time, or Adam if there is no time for an
        epoch of either.
    seconds, epochs, target, patience
        The budget: training ends when either is used up, at a validation error of ``target``, or
        when that error has not fallen by a tenth in so many epochs as ``patience`` says. An epoch
        that goes on for more than a tenth of the seconds beyond them is left, but for those of
        several processes. Of a first epoch that is left the weights are kept that it has reached:
        those at its beginning, and with Adam those of its steps so far.
        150 seconds if neither of the first two is given.
    loss, horizon, noise
        Objective, see :class:`vpintegrator.training.objective.Objective`.
    restarts
        Number of trials. With more than one, half of the budget goes to trials from different
        random weights, and the best trial gets the other half.
    initial_scheme
        The classical splitting method that polynomials begin as, if it errs less than their own
        weights: "auto", "none" or a name of ``vpintegrator.dynamics.compositions.FACTORS``, see
        :func:`vpintegrator.training.initial.splitting.start_as_splitting`.
    batch
        Windows in a step; each optimizer has a default.
    learning_rate
        Initial learning rate of first-order methods such as Adam.
    seed
        Seed of the choice and order of windows, and of the weights of restarts.
    normalise
        Set the model's normalisation to mean and standard deviation of the training states.
    device
        Device of the training, on which the model remains. ``auto`` is the CPU, or a GPU if a
        gradient of a step is more than twice as fast in PyTorch; the history holds the measurement.
    threads
        Threads of machine code and of torch on the CPU; no other library takes more. One thread is
        the fastest for models as small as these, see :mod:`vpintegrator.runtime.threads`.
    compiled
        Whether residuals and their derivatives are computed as machine code (see
        ``vpintegrator.compiled``), equal up to rounding and some ten times faster, after seconds of
        compilation when a model is seen for the first time. By default where that is possible and
        takes less than half of the budget; ``not_compiled`` of the history says why not.
        Gauss-Newton has PyTorch only.
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
        another training, a file cannot be written, or no validation error was finite: then no
        model is written.
    KeyboardInterrupt
        If it comes before training has begun, or while the result is written (which is finished).

    Examples
    --------
    >>> dataset = vp.generate("pendulum", "swing.h5", count=20, steps=20, overwrite=True)
    >>> model = vp.models.VolumePreservingFeedForward(dim=2, depth=2, functions="polynomial")
    >>> history = vp.train(model, dataset, epochs=20)
    >>> history.best_validation_error < 1e-3
    True
    """
    data = TrainingData.of(dataset)
    model = _as_model(model, data)
    data.check(model)
    trainer = Trainer(model, data, method, budget, objective, execution, files, normalise)
    with files.claimed():
        trainer.prepare()
        return trainer.finish(trainer.work(progress))


def _as_model(model: Any, data: TrainingData) -> Integrator:
    """Return the model, or one that shares the parameters of a torch module."""
    check_model(model, "model")
    if is_own(model):
        model = wrap(model, data.dataset.dim, data.dataset.step)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise InputError(f"{model.name} has no parameters to train")
    if not getattr(model, "differentiable", True):
        raise InputError(f"{model.name} cannot be trained: it is no function of torch tensors")
    return model
