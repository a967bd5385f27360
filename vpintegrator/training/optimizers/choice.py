"""Automatic choice of an optimizer by the model's kind and size, and by the time of an epoch."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable

import torch

from vpintegrator.data.pairs import Pairs
from vpintegrator.models import Integrator
from vpintegrator.nn.encoder import uses_batch_statistics
from vpintegrator.runtime.devices import Choice, faster_device
from vpintegrator.training import processes
from vpintegrator.training.history import Budget
from vpintegrator.training.linear_map import linear_layer
from vpintegrator.training.objective import Objective
from vpintegrator.training.optimizers.gauss_newton import ITERATIONS, GaussNewton
from vpintegrator.training.optimizers.levenberg_marquardt import LevenbergMarquardt
from vpintegrator.training.residuals import Residuals
from vpintegrator.training.training_data import TrainingData

BY_TIME = ("levenberg-marquardt", "gauss-newton", "adam")
LARGEST_MATRIX = 5_000  # parameters for which auto takes Levenberg-Marquardt
_TIMED = 1_000  # fewer have epochs of some tenths of a second at most
# with fewer Levenberg-Marquardt epochs in the budget, Gauss-Newton reaches smaller errors if its
# epochs are cheaper: on the FPUT chain (30 components, 2,976 parameters) 5.1e-3 instead of 1.3e-2
# in the time of one epoch, 2.0e-3 instead of 2.2e-3 in the time of five. If its epochs are dearer
# errors are larger: attention (3,384 parameters) reaches 1.2e-2 instead of 1.0e-3 in five epochs
_FEWEST_EPOCHS = 8
_PART = 8  # one window in eight is timed for Gauss-Newton


def by_size(model: Integrator) -> str:
    """Return the optimizer by what the model is alone."""
    if model.linear_in_parameters or linear_layer(model) is not None:
        return "linear"
    if uses_batch_statistics(model):
        return "adam"
    if any(p.dtype != torch.float64 for p in model.parameters()):
        return "adam"
    return "levenberg-marquardt" if _count(model) <= LARGEST_MATRIX else "gauss-newton"


def by_time(
    name: str,
    model: Integrator,
    pairs: Pairs,
    objective: Objective,
    budget: Budget,
    batch: int | None = None,
) -> str:
    """Return ``name``, or a cheaper optimizer if Levenberg-Marquardt lacks time.

    That is Gauss-Newton if its epochs take less time, and Adam if neither has the time for one.

    Parameters
    ----------
    name
        The choice by size.
    model, pairs, objective, batch
        See :class:`LevenbergMarquardt`; the model stays as it is.
    budget
        Budget of one training. With epochs the choice is not changed, so that training can be
        repeated.
    """
    if budget.seconds is None or budget.epochs is not None:
        return name
    if name != "levenberg-marquardt" or _count(model) <= _TIMED:
        return name
    begin = time.perf_counter()
    spent = processes.first_says(_seconds_of_an_epoch(model, pairs, objective, batch), model.scale)
    if spent * _FEWEST_EPOCHS <= budget.seconds:
        return name
    other = processes.first_says(
        _seconds_of_gauss_newton(model, pairs, objective, batch), model.scale
    )
    used = processes.first_says(time.perf_counter() - begin, model.scale)
    if min(spent, other) > budget.seconds - used:
        return "adam"
    return name if spent < other else "gauss-newton"


def device_for(model: Integrator, data: TrainingData, objective: Objective, batch: int) -> Choice:
    """Choose the device that trains a model with ``batch`` windows a step.

    The choice times a gradient in PyTorch; machine code is faster on either device.

    Parameters
    ----------
    model, data, objective
        Model, data and objective on the CPU; they are not changed.
    batch
        Number of windows in a step.
    """

    def work(device: str) -> Callable[[], object]:
        pairs = data.pairs(model, objective.horizon)
        inputs, targets = pairs.sample(batch, torch.Generator().manual_seed(0))
        there = copy.deepcopy(model).to(device)
        residuals = Residuals(there, objective)
        x, y = inputs.to(there.scale), objective.new_states(there, targets.to(there.scale))
        vector = residuals.read()

        def gradient() -> float:
            return float(residuals.gradient(vector, x, y)[0][0].item())

        return gradient

    return faster_device(work, "a gradient")


def _count(model: Integrator) -> int:
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def _seconds_of_an_epoch(
    model: Integrator,
    pairs: Pairs,
    objective: Objective,
    batch: int | None,
) -> float:
    """Estimate the seconds of a Levenberg-Marquardt epoch from one block of the Jacobian.

    An epoch computes all blocks, and solves once.
    """
    generator = torch.Generator().manual_seed(0)
    optimizer = LevenbergMarquardt(model, pairs, objective, batch=batch, generator=generator)
    blocks = math.ceil(len(optimizer.inputs) / optimizer.block)
    optimizer.inputs = optimizer.inputs[: optimizer.block]
    optimizer.targets = optimizer.targets[: optimizer.block]
    optimizer.linearise()  # the first time is slower
    begin = time.perf_counter()
    linear = optimizer.linearise()
    linearised = time.perf_counter()
    linear.step(linear.curvature)
    return blocks * (linearised - begin) + time.perf_counter() - linearised


def _seconds_of_gauss_newton(
    model: Integrator, pairs: Pairs, objective: Objective, batch: int | None
) -> float:
    """Estimate the seconds of a Gauss-Newton epoch from a product with J^T J of some windows.

    An epoch takes the largest allowed number of products.
    """
    generator = torch.Generator().manual_seed(0)
    optimizer = GaussNewton(model, pairs, objective, batch=batch, generator=generator)
    whole, part = len(optimizer.inputs), -(-len(optimizer.inputs) // _PART)
    optimizer.inputs, optimizer.targets = optimizer.inputs[:part], optimizer.targets[:part]
    optimizer.linearise()  # the first time is slower
    begin = time.perf_counter()
    optimizer.linearise()
    return ITERATIONS * (time.perf_counter() - begin) * whole / part
