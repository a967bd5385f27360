"""Adam on shuffled batches of windows, with a learning rate that decays."""

from __future__ import annotations

import math
from itertools import islice
from typing import Any, ClassVar

import torch

from vpintegrator.models import Integrator
from vpintegrator.training import processes
from vpintegrator.training.objective import Objective
from vpintegrator.training.optimizers.state import Nested, State
from vpintegrator.training.optimizers.torch_optimizer import TorchOptimizer
from vpintegrator.training.residuals import relative

_BATCH = 1024
_LEARNING_RATE = 5e-3
_EPOCH = 1 << 19  # windows after which an epoch of a large group ends


class FirstOrder(TorchOptimizer):
    """Steps along gradients of batches; :meth:`epoch` passes once over all windows.

    Of more than 524,288 windows it takes as many at random.

    The rate falls along a half cosine from ``learning_rate`` to a thousandth of it over the budget,
    which is what lets the error keep falling to the end.

    Parameters
    ----------
    model, pairs, objective, batch, generator, compiled
        See :class:`vpintegrator.training.optimizers.base.Optimizer`; a batch has 1024 windows by
        default.
    learning_rate
        At the start, 0.005 by default.

    Attributes
    ----------
    kind
        Makes the optimizer of torch from parameters and ``lr``.
    remembered
        The vectors, one entry a parameter, that torch's optimizer keeps from step to step.
    remembered_numbers
        The tensors of a single number that it keeps.
    """

    step_seconds = 0.005
    options = ("learning_rate",)
    takes_batch_statistics = True
    kind: ClassVar[Any]
    remembered: ClassVar[tuple[str, ...]] = ()
    remembered_numbers: ClassVar[tuple[str, ...]] = ()

    def __init__(self, *arguments: Any, learning_rate: float | None = None, **options: Any) -> None:
        self.learning_rate = learning_rate or _LEARNING_RATE
        super().__init__(*arguments, **options)

    @classmethod
    def default_batch(cls, model: Integrator, objective: Objective) -> int:
        """Return 1024."""
        return _BATCH

    @classmethod
    def steps(cls, pairs: int, batch: int) -> float:
        """Return the number of steps in an epoch, one for each batch."""
        return min(pairs, _EPOCH) / batch

    def made(self) -> torch.optim.Optimizer:
        """Return the optimizer, whose step counter is a tensor for checkpoints."""
        return self.kind([self.parameters], lr=self.learning_rate)

    def epoch(self, progress: float) -> float:
        """Train on the windows once, at a rate that falls with ``progress``."""
        decay = 0.5 * (1 + math.cos(math.pi * min(progress, 1.0)))
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate * (1e-3 + (1 - 1e-3) * decay)
        self.parameters.data.copy_(self.residuals.read())
        sums = self.parameters.new_zeros(3, requires_grad=False)
        self.model.train()
        batches = self.pairs.batches(self.batch, self.generator)
        try:
            for pair in islice(batches, -(-_EPOCH // self.batch)):
                inputs, targets = self.ready(pair)
                count = targets.numel()
                inputs, targets = processes.share(inputs), processes.share(targets)
                # the sum over this process's windows; all processes' together make the mean
                found, gradient = self.residuals.gradient(self.parameters, inputs, targets)
                self.parameters.grad = processes.total(gradient / count)
                self.optimizer.step()
                sums[:2] += found
                sums[2] += targets[..., 0].numel()
        finally:  # also of an epoch that is left
            self.model.eval()
            self.residuals.write(self.parameters.detach())
        _, squares, states = processes.total(sums).tolist()
        return relative(squares, int(states))

    def roll_back(self) -> None:
        """Reset the optimizer's moments, and reduce the learning rate."""
        self.learning_rate *= 0.3
        self.optimizer.state.clear()

    def state(self) -> Nested:
        """Return all that changes."""
        return {"0": self.inner_state(), "learning_rate": self.learning_rate}

    def restore(self, state: State) -> None:
        """Go on from a state."""
        like = dict.fromkeys(self.remembered_numbers, torch.tensor(0.0))
        like |= dict.fromkeys(self.remembered, self.parameters.detach())
        self.learning_rate = state.number("learning_rate", least=0)
        inner = state.part("0")
        self.restore_inner({n: inner.tensor(n, like[n]) for n in like} if inner else {})


class Adam(FirstOrder):
    """Kingma and Ba, arXiv 1412.6980."""

    name = "adam"
    kind: ClassVar[Any] = torch.optim.Adam
    remembered = ("exp_avg", "exp_avg_sq")
    remembered_numbers = ("step",)
