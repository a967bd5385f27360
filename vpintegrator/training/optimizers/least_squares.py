"""Common parts of second-order methods: a subset of windows, its cost, the choice of damping."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from vpintegrator.training import processes
from vpintegrator.training.optimizers.base import Optimizer
from vpintegrator.training.optimizers.state import LARGEST_SIZE, Nested, State
from vpintegrator.training.residuals import relative

_FIRST_DAMPING = 1e-3  # times the curvature, for untrained models
_DAMPING_OF_TRAINED = 1e-7  # times the curvature, for models that were trained before
_LARGEST_DAMPING = 1e12  # times the curvature: the step is too short to change anything
_OVERFITTED = 1.3  # validation error relative to training error with four residuals a parameter
_IMPROVED = 0.9
_PATIENCE = 10  # iterations without improvement before more windows are taken


@dataclass(frozen=True)
class Linearisation:
    """The problem near some parameters.

    Attributes
    ----------
    gradient
        J^T r.
    step
        The delta of a damping, or None where rounding leaves none.
    curvature
        The largest element of J^T J, or another measure of its size.
    """

    gradient: torch.Tensor
    step: Callable[[float], torch.Tensor | None]
    curvature: float


class DampedLeastSquares(Optimizer):
    """Repeated minimisation of |r + J delta|^2 + damping |delta|^2 over steps delta.

    The damping follows Nielsen's rule. It falls, at most to a third, if the linear model predicts
    the gain of a step well. It grows at an increasing rate while steps fail (Madsen, Nielsen,
    Tingleff, Methods for non-linear least squares problems, 2nd ed., 2004, section 2.2 and 3.2).

    The windows in use are a random subset. A new subset is drawn when no step lowers the cost: the
    subset is fitted to rounding, or a minimum is reached. The subset is doubled when its error is
    below the validation error, and the latter has not improved for some iterations. A larger subset
    before that would only slow iterations down.

    Parameters
    ----------
    model, pairs, objective, generator, compiled
        See :class:`vpintegrator.training.optimizers.base.Optimizer`.
    batch
        Initial number of windows in use.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.parameters = self.residuals.read()
        self.damping = 0.0  # not chosen yet
        self.best, self.stalled = math.inf, 0  # validation error, and iterations since it fell
        self.choose_windows()

    def choose_windows(self) -> None:
        """Draw another subset of windows."""
        self.use(*self.ready(self.pairs.sample(self.batch, self.generator)))
        self.size = self.in_use[1][..., 0].numel()
        self.cost, self.squares = self._sums(self.parameters)

    @abstractmethod
    def linearise(self) -> Linearisation:
        """Return the problem near the present parameters."""

    def epoch(self, progress: float) -> float:
        """Do one iteration; ``progress`` is not used."""
        linear = self.linearise()
        trained = "training" in self.model.metadata
        first = _DAMPING_OF_TRAINED if trained else _FIRST_DAMPING
        damping = self.damping or first * linear.curvature
        growth = 2.0
        # rounding of J^T J hides any damping smaller than this
        least = torch.finfo(self.parameters.dtype).eps * linear.curvature
        while not self._take_step(linear, max(damping, least)):
            damping *= growth
            growth *= 2
            # also where the curvature is zero, infinite or nan
            if not damping < _LARGEST_DAMPING * linear.curvature:
                self.damping = 0.0
                self.choose_windows()
                break
        return relative(self.squares, self.size)

    def _take_step(self, linear: Linearisation, damping: float) -> bool:
        """Whether the step of this damping lowers the cost; if so it is taken."""
        delta = linear.step(damping)
        if delta is None:
            return False
        cost, squares = self._sums(self.parameters + delta)
        if not cost < self.cost:  # true for nan
            return False
        # both at once, as each number that is looked at makes a GPU wait
        length, slope = torch.stack([delta.dot(delta), linear.gradient.dot(delta)]).tolist()
        foretold = damping * length - slope
        gain = (self.cost - cost) / foretold if foretold > 0 else 0.0
        self.damping = damping * max(1 / 3, 1 - (2 * gain - 1) ** 3)
        self.cost, self.squares, self.parameters = cost, squares, self.parameters + delta
        self.residuals.write(self.parameters)
        return True

    @property
    def windows(self) -> int:
        """The number of windows in use."""
        return len(self.in_use[0])

    def observe(self, training_error: float, validation_error: float) -> None:
        """Take twice as many windows when others get no better, and those in use do."""
        if validation_error < _IMPROVED * self.best:
            self.best, self.stalled = validation_error, 0
            return
        self.stalled += 1
        overfitted = validation_error > _OVERFITTED * training_error
        if overfitted and self.stalled >= _PATIENCE and self.batch < len(self.pairs):
            self.batch, self.stalled = 2 * self.batch, 0
            self.choose_windows()

    def roll_back(self) -> None:
        """The model was set back to better weights: go on from them with twice as many windows.

        What fits those in use and is far off on others says that these are too few.
        """
        self.batch = min(2 * self.batch, len(self.pairs))
        self.parameters = self.residuals.read()
        self.damping = 0.0
        self.choose_windows()

    def _sums(self, vector: torch.Tensor) -> list[float]:
        """Return weighted and plain sums of squares over the windows of all processes."""
        sums = self.residuals.sums(vector, self.inputs, self.targets)
        return processes.total(sums).tolist()

    def state(self) -> Nested:
        """Return all that changes; the windows in use are those of all processes."""
        inputs, targets = self.in_use
        return {
            "parameters": self.parameters,
            "inputs": inputs,
            "targets": targets,
            "damping": self.damping,
            "batch": self.batch,
            "cost": self.cost,
            "size": self.size,
            "best": min(self.best, LARGEST_SIZE),
            "stalled": self.stalled,
        }

    def restore(self, state: State) -> None:
        """Go on from a state."""
        self.parameters = state.tensor("parameters", self.parameters)
        self.batch = state.whole("batch", 1, LARGEST_SIZE)
        count = min(self.batch, len(self.pairs))
        inputs, targets = self.in_use
        self.use(
            state.tensor("inputs", inputs, count, *inputs.shape[1:]),
            state.tensor("targets", targets, count, *targets.shape[1:]),
        )
        self.damping = state.number("damping", least=0)
        self.cost = state.number("cost", finite=False)
        state.number("size", finite=False)  # other in earlier versions
        self.size = self.in_use[1][..., 0].numel()
        self.best = state.number("best", 0)
        self.stalled = state.whole("stalled", 0, LARGEST_SIZE)
