"""Optimizers of torch.optim: Adam on shuffled batches, and L-BFGS on a subset of windows.

Parameters are one vector: updates of many small tensors would take longer than the rest.
"""

from __future__ import annotations

import math
from itertools import islice
from typing import Any

import torch

from vpintegrator.models import Integrator
from vpintegrator.training.optimizers.base import Optimizer
from vpintegrator.training.residuals import Objective, relative

_BATCH = 1024
_LEARNING_RATE = 5e-3
_EPOCH = 1 << 19  # windows after which an epoch of a large group ends
_SUBSET = 2048  # windows of L-BFGS
_ITERATIONS = 20
_HISTORY = 50


class Adam(Optimizer):
    """Steps along gradients of batches (Kingma and Ba, arXiv 1412.6980).

    An epoch passes once over all windows; of more than 524,288 windows it takes as many at random.
    The rate falls along a half cosine from ``learning_rate`` to a thousandth of it over the budget,
    which is what lets the error keep falling to the end.

    Parameters
    ----------
    model, pairs, objective, batch, generator, compiled
        See :class:`vpintegrator.training.optimizers.base.Optimizer`; a batch has 1024 windows by
        default.
    learning_rate
        At the start, 0.005 by default.
    """

    name = "adam"
    compiles = True
    step_seconds = 0.005
    has_learning_rate = True
    takes_batch_statistics = True

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.rate = self.learning_rate or _LEARNING_RATE
        self.parameters = torch.nn.Parameter(self.residuals.read())
        self.optimizer = torch.optim.Adam([self.parameters], lr=self.rate)

    @classmethod
    def default_batch(cls, model: Integrator, objective: Objective) -> int:
        """Return 1024."""
        return _BATCH

    @classmethod
    def steps(cls, pairs: int, batch: int) -> float:
        """Return the number of steps in an epoch, one for each batch."""
        return min(pairs, _EPOCH) / batch

    def epoch(self, progress: float) -> float:
        """Train on the windows once, at a rate that falls with ``progress``."""
        decay = 0.5 * (1 + math.cos(math.pi * min(progress, 1.0)))
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate * (1e-3 + (1 - 1e-3) * decay)
        self.parameters.data.copy_(self.residuals.read())
        sums = self.parameters.new_zeros(3, requires_grad=False)
        self.model.train()
        batches = self.pairs.batches(self.batch, self.generator)
        try:
            for pair in islice(batches, -(-_EPOCH // self.batch)):
                inputs, targets = self.ready(pair)
                found, gradient = self.residuals.gradient(self.parameters, inputs, targets)
                self.parameters.grad = gradient / targets.numel()
                self.optimizer.step()
                sums[:2] += found
                sums[2] += targets[..., 0].numel()
        finally:  # also of an epoch that is left
            self.model.eval()
            self.residuals.write(self.parameters.detach())
        _, squares, states = sums.tolist()
        return relative(squares, int(states))

    def roll_back(self) -> None:
        """Reset the optimizer's moments, and reduce the learning rate."""
        self.rate *= 0.3
        self.optimizer.state.clear()


class LBFGS(Optimizer):
    """torch's L-BFGS with a strong Wolfe line search; an epoch is 20 of its iterations.

    Liu and Nocedal, Math. Program. 45 (1989) 503-528.

    Its vectors are on the CPU, where the model is on a GPU, too: it looks at a number after nearly
    every operation on them, for each of which a GPU would be waited for. So a gradient is a copy
    there and a copy back.

    Parameters
    ----------
    model, pairs, objective, batch, generator, compiled
        See :class:`vpintegrator.training.optimizers.base.Optimizer`. A batch has 2048 windows by
        default: one subset throughout, as the method needs.
    """

    name = "l-bfgs"
    compiles = True
    step_seconds = 0.5

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.parameters = torch.nn.Parameter(self.residuals.read().cpu())
        self.inputs, self.targets = self.ready(self.pairs.sample(self.batch, self.generator))
        self.roll_back()

    @classmethod
    def default_batch(cls, model: Integrator, objective: Objective) -> int:
        """Return 2048."""
        return _SUBSET

    def epoch(self, progress: float) -> float:
        """Do some iterations; ``progress`` is not used."""

        def closure() -> float:
            vector = self.parameters.detach().to(self.inputs.device)
            found = self.residuals.gradient(vector, self.inputs, self.targets)
            squares, gradient = (part / self.targets.numel() for part in found)
            self.parameters.grad = gradient.cpu()
            return squares[0].item()

        self.parameters.data.copy_(self.residuals.read())
        self.optimizer.step(closure)
        vector = self.parameters.detach().to(self.inputs.device)
        self.residuals.write(vector)
        squares = self.residuals.sums(vector, self.inputs, self.targets)[1]
        return relative(squares.item(), self.targets[..., 0].numel())

    def roll_back(self) -> None:
        """Forget what was learned of the curvature; tolerances do not end the iterations."""
        self.optimizer = torch.optim.LBFGS(
            [self.parameters],
            max_iter=_ITERATIONS,
            history_size=_HISTORY,
            tolerance_grad=0,
            tolerance_change=0,
            line_search_fn="strong_wolfe",
        )
