"""Method of a training: the optimizer by its name or by the size of a model, and machine code."""

from __future__ import annotations

import importlib
import math
import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from vpintegrator.arguments import check, positive, whole
from vpintegrator.compiled import CompiledResidual, NotCompilable, NotWorthIt, wanted_on
from vpintegrator.errors import InputError
from vpintegrator.models import Integrator
from vpintegrator.names import OPTIMIZER_CLASSES, OPTIMIZERS
from vpintegrator.nn.encoder import uses_batch_statistics
from vpintegrator.runtime.deadline import time_left
from vpintegrator.runtime.devices import check_device
from vpintegrator.training.initial_scheme import check_initial_scheme
from vpintegrator.training.linear_map import linear_layer
from vpintegrator.training.optimizers.base import Optimizer
from vpintegrator.training.residuals import Objective

LARGEST_SEED = 2**63 - 1
_BY_MATRIX = 5_000  # parameters for which auto takes Levenberg-Marquardt
# fraction of the training time that the compiler may take: the rest as machine code does several
# times what all of it does in PyTorch (ten times for vpt of 414 parameters)
_SHARE = 0.5
_SHORTEST = 2.0  # seconds of training: preparing takes some tenths even if the cache has it


def _class(where: str) -> type[Optimizer]:
    module, name = where.split(".")
    return getattr(importlib.import_module(f"vpintegrator.training.optimizers.{module}"), name)


BY_NAME: dict[str, type[Optimizer]] = {
    name: _class(where) for name, where in OPTIMIZER_CLASSES.items()
}


@dataclass(frozen=True)
class Method:
    r"""Optimizer of a training, and its options.

    Levenberg-Marquardt solves, for the residuals r of the windows in use and their
    derivative J by the parameters :math:`\theta`,

    .. math:: (J^T J + \mu I)\, \delta = -J^T r, \qquad \theta \mapsto \theta + \delta.

    The damping :math:`\mu` falls after a step that reduces the error as predicted, and grows
    otherwise.

    Attributes
    ----------
    optimizer, batch, learning_rate, seed, initial_scheme
        Arguments of :func:`vpintegrator.train`.

    References
    ----------
    Nocedal, Wright, Numerical Optimization, second edition, section 10.3.
    """

    optimizer: str = "auto"
    batch: int | None = None
    learning_rate: float | None = None
    seed: int = 0
    initial_scheme: str = "auto"

    def __post_init__(self) -> None:
        if self.optimizer not in OPTIMIZERS:
            raise InputError(f"optimizer = '{self.optimizer}' is none of {', '.join(OPTIMIZERS)}")
        check_initial_scheme(self.initial_scheme)
        seed = partial(whole, least=0, most=LARGEST_SEED)
        check(self, batch=whole, learning_rate=positive, seed=seed)

    @property
    def options(self) -> dict[str, Any]:
        """Return the given options that only some optimizers have."""
        some = {name for kind in BY_NAME.values() for name in kind.options}
        return {n: value for n in sorted(some) if (value := getattr(self, n)) is not None}

    def chosen(self, model: Integrator, compiled: bool | None) -> type[Optimizer]:
        """Return the optimizer for a model, by its size if none is named.

        Raises
        ------
        InputError
            If it has not all the options, or cannot train such a model, as machine code if that is
            asked for.
        """
        kind = BY_NAME[by_size(model) if self.optimizer == "auto" else self.optimizer]
        for name in self.options:
            if name not in kind.options:
                having = " and ".join(k.name for k in BY_NAME.values() if name in k.options)
                raise InputError(f"{name} is an option of {having}; {kind.name} has none")
        if not uses_batch_statistics(model):
            return kind
        if not kind.takes_batch_statistics:
            able = " or ".join(k.name for k in BY_NAME.values() if k.takes_batch_statistics)
            raise InputError(
                f"{kind.name} takes residuals window by window, but batch norm computes with the "
                f'statistics of a batch; use {able}, or norm = "layer"'
            )
        if compiled:
            raise InputError("models with batch norm train in PyTorch only; leave out compiled")
        return kind


def by_size(model: Integrator) -> str:
    """Return the name of the optimizer that suits the kind and the size of a model."""
    if model.linear_in_parameters or linear_layer(model) is not None:
        return "linear"
    if uses_batch_statistics(model) or any(p.dtype != torch.float64 for p in model.parameters()):
        return "adam"
    count = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return "levenberg-marquardt" if count <= _BY_MATRIX else "adam"


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
        machine = CompiledResidual(
            model, weights.numpy(), chained=objective.horizon > 1, worth=worth
        )
        return machine, ""
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
