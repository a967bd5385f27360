"""Decision whether training runs as machine code."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import torch

from vpintegrator.compiled import CompiledResidual, NotCompilable, NotWorthIt, wanted_on
from vpintegrator.errors import InputError
from vpintegrator.models import Integrator
from vpintegrator.runtime.devices import check_device
from vpintegrator.training.objective import Objective
from vpintegrator.training.optimizers.base import Optimizer

_SHARE = 0.2  # fraction of the training time that the compiler may take
_SHORTEST = 2.0  # seconds of training: preparing takes some tenths even if the cache has it


@dataclass(frozen=True)
class Execution:
    """Device and compilation of a training.

    Attributes
    ----------
    device, compiled
        Arguments of :func:`vpintegrator.train`.
    """

    device: str | torch.device = "cpu"
    compiled: bool | None = None

    def __post_init__(self) -> None:
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
) -> CompiledResidual | None:
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

    Raises
    ------
    InputError
        If it is wanted and impossible. Where it would only pay, a warning says why it is not done.
    """
    compiled = wanted_on(model.scale.device.type, execution.compiled)
    available = optimizer.compiles and model.scale.device.type == "cpu"
    expected = min(seconds or math.inf, steps * optimizer.step_seconds * (epochs or math.inf))
    if compiled is False or (compiled is None and not (available and expected >= _SHORTEST)):
        return None
    if not available:
        what = f"training on {model.scale.device}" if optimizer.compiles else optimizer.name
        raise InputError(f"{what} runs in PyTorch only; leave out compiled")

    def worth(needed: float, cached: bool) -> bool:
        return bool(compiled or needed < _SHARE * expected)

    scale = model.state_scale
    weights = 1 / scale if objective.loss == "mean-square" else torch.ones_like(scale)
    try:
        return CompiledResidual(model, weights.numpy(), chained=objective.horizon > 1, worth=worth)
    except NotWorthIt:
        return None
    except NotCompilable as reason:
        if compiled:
            raise InputError(f"{model.name} cannot be compiled: {reason}") from None
        warnings.warn(f"{model.name} trains in PyTorch, not compiled: {reason}", stacklevel=3)
        return None
