"""Whether training runs as machine code, and from when on."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from vpintegrator.compiled import CompiledResidual, NotCompilable, NotWorthIt
from vpintegrator.errors import InputError
from vpintegrator.models import Integrator
from vpintegrator.training import processes
from vpintegrator.training.objective import Objective

_SHARE = 0.2  # of the time of training that may pass until the compiler is done
_MEANWHILE = 0.5  # the same where training goes on meanwhile
_SHORTEST = 2.0  # seconds of training: preparing takes some tenths even if the cache has it
# seconds of a step in PyTorch, where the budget is in epochs: about, for the smallest models
_STEP = {"levenberg-marquardt": 0.05, "adam": 0.005, "adamw": 0.005, "l-bfgs": 0.5}


def compile_for_training(
    model: Integrator,
    objective: Objective,
    optimizer: str,
    *,
    seconds: float | None,
    epochs: int | None,
    batches: float,
    threads: int,
    compiled: bool | None,
    repeatable: bool,
) -> CompiledResidual | None:
    """The residuals of a model as machine code, where that is wanted, or by default where it pays.

    Training that has seconds need not wait for the compiler: they may not be ``ready`` yet. With a
    budget in epochs the choice depends on nothing but the arguments, so that training can be
    repeated to the last bit.

    Parameters
    ----------
    model, objective, optimizer
        What is trained, how.
    seconds, epochs
        The budget.
    batches
        Steps in an epoch.
    threads
        To be used.
    compiled
        Whether it is wanted; None to choose.
    repeatable
        Whether to wait for the compiler in any case.

    Raises
    ------
    InputError
        If it is wanted and impossible. Where it would only pay, a warning says why it is not done.
    """
    available = optimizer in _STEP and model.scale.device.type == "cpu"
    expected = min(seconds or math.inf, batches * _STEP.get(optimizer, 0) * (epochs or math.inf))
    if compiled is False or (compiled is None and not (available and expected >= _SHORTEST)):
        return None
    if not available:
        what = optimizer if optimizer not in _STEP else f"training on {model.scale.device}"
        raise InputError(f"{what} runs in PyTorch only; leave out compiled")

    # several processes must go over to machine code at the same time
    wait = bool(compiled or repeatable or processes.count() > 1)

    def worth(needed: float, cached: bool) -> bool:
        share = _SHARE if wait else _MEANWHILE
        return bool(compiled or (cached and seconds) or needed < share * expected)

    weights = (1 / model.scale if objective.loss == "mean-square" else model.scale * 0 + 1).numpy()
    try:
        if processes.rank() > 0:  # the others find in the cache what the first process makes
            processes.first_says(0.0, model.scale)
        try:
            return CompiledResidual(
                model,
                weights,
                chained=objective.horizon > 1,
                threads=threads,
                worth=worth,
                wait=wait,
            )
        finally:
            if processes.rank() == 0:
                processes.first_says(0.0, model.scale)
    except NotWorthIt:
        return None
    except NotCompilable as reason:
        if compiled:
            raise InputError(f"{model.name} cannot be compiled: {reason}") from None
        warnings.warn(f"{model.name} trains in PyTorch, not compiled: {reason}", stacklevel=3)
        return None


@contextmanager
def training_with(machine: CompiledResidual | None) -> Iterator[None]:
    """Leave no compiler at work when training ends, and say if it failed meanwhile."""
    try:
        yield
    finally:
        if machine is not None:
            if machine.failure is not None:
                warnings.warn(f"trained in PyTorch, not compiled: {machine.failure}", stacklevel=3)
            machine.stop()
