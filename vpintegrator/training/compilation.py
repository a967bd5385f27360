"""Decision whether training runs as machine code."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import torch

from vpintegrator.arguments import check, whole
from vpintegrator.compiled import CompiledResidual, NotCompilable, NotWorthIt, wanted_on
from vpintegrator.errors import InputError
from vpintegrator.models import Integrator
from vpintegrator.nn.encoder import uses_batch_statistics
from vpintegrator.runtime.deadline import time_left
from vpintegrator.runtime.devices import check_device
from vpintegrator.training import processes
from vpintegrator.training.objective import Objective
from vpintegrator.training.optimizers.base import Optimizer

# fraction of the training time that the compiler may take: the rest as machine code does several
# times what all of it does in PyTorch (ten times for vpt of 414 parameters)
_SHARE = 0.5
_SHORTEST = 2.0  # seconds of training: preparing takes some tenths even if the cache has it


@dataclass(frozen=True)
class Execution:
    """Device, threads and compilation of a training.

    Attributes
    ----------
    device, threads, compiled
        Arguments of :func:`vpintegrator.train`.
    """

    device: str | torch.device = "cpu"
    threads: int = 1
    compiled: bool | None = None

    def __post_init__(self) -> None:
        check(self, threads=whole)
        check_device(str(self.device))


def compile_for_training(
    model: Integrator,
    objective: Objective,
    optimizer: type[Optimizer],
    execution: Execution,
    *,
    seconds: float | None,
    epochs: int | None,
    steps: float,
) -> tuple[CompiledResidual | None, str]:
    """Compile the residuals of a model if wanted, or by default if it saves time.

    Training waits for the compiler, and the choice depends on nothing but the arguments, so that
    training can be repeated to the last bit.

    Parameters
    ----------
    model, objective, optimizer, execution
        Model, objective, optimizer, and execution of the training.
    seconds, epochs
        The budget.
    steps
        Number of steps in an epoch.

    Returns
    -------
    CompiledResidual or None
        Machine code, or None for a training in PyTorch.
    str
        Reason for PyTorch, if it was not asked for.

    Raises
    ------
    InputError
        If it is wanted and impossible. Where it would only pay, a warning says why it is not done.
    """
    compiled = wanted_on(model.scale.device.type, execution.compiled)
    if compiled is False:
        return None, ""
    refusal = _refusal(model, optimizer)
    if compiled and refusal:
        raise InputError(f"{refusal}; leave out compiled")
    expected = min(seconds or math.inf, steps * optimizer.step_seconds * (epochs or math.inf))
    if not refusal and not compiled and expected < _SHORTEST:
        refusal = f"the training takes about {expected:.1f} seconds, too few to compile it"
    if refusal:
        return None, refusal

    def worth(needed: float, cached: bool) -> bool:
        worthwhile = needed < _SHARE * expected and (cached or needed < time_left())
        return bool(compiled or worthwhile)

    scale = model.state_scale
    weights = 1 / scale if objective.loss == "mean-square" else torch.ones_like(scale)
    try:
        if processes.rank() > 0:  # the others find in the cache what the first process makes
            processes.first_says(0.0, model.scale)
        try:
            machine = CompiledResidual(
                model,
                weights.numpy(),
                chained=objective.horizon > 1,
                threads=execution.threads,
                worth=worth,
            )
            return machine, ""
        finally:
            if processes.rank() == 0:
                processes.first_says(0.0, model.scale)
    except NotWorthIt as reason:
        return None, f"{reason}: the training takes about {expected:.0f} seconds"
    except NotCompilable as reason:
        if compiled:
            raise InputError(f"{model.name} cannot be compiled: {reason}") from None
        warnings.warn(f"{model.name} trains in PyTorch, not compiled: {reason}", stacklevel=3)
        return None, str(reason)


def _refusal(model: Integrator, optimizer: type[Optimizer]) -> str:
    """Return why a model cannot be trained as machine code by an optimizer; empty if it can."""
    if model.scale.device.type != "cpu":
        return f"training on {model.scale.device} runs in PyTorch only"
    if not optimizer.compiles:
        return f"{optimizer.name} runs in PyTorch only"
    if uses_batch_statistics(model):
        return "models with batch norm train in PyTorch only"
    return ""
