"""Adam and AdamW on shuffled batches of windows, with a learning rate that decays."""

from __future__ import annotations

import math
from typing import Any

import torch

from vpintegrator.compiled import CompiledResidual
from vpintegrator.models import Integrator
from vpintegrator.training import processes
from vpintegrator.training.gradient import Gradient
from vpintegrator.training.objective import Objective
from vpintegrator.training.state import State

_ALGORITHMS: dict[str, Any] = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
BATCH = 1024
_LEARNING_RATE = 5e-3


class FirstOrder:
    """Adam (Kingma and Ba, arXiv 1412.6980), AdamW (Loshchilov and Hutter, arXiv 1711.05101).

    One call of :meth:`epoch` passes over all windows once. The rate falls along a half cosine from
    ``learning_rate`` to a thousandth of it over the budget, which is what lets the error keep
    falling to the end.

    Parameters
    ----------
    model
        Trained in place.
    inputs, targets
        Pairs of windows, shape (pair, window, dim) and (pair, time, dim).
    objective
        What is minimised.
    name
        ``adam`` or ``adamw``.
    batch
        Windows in a batch, 1024 by default.
    learning_rate
        At the start, 0.005 by default.
    generator
        Of the shuffling and the noise.
    compiled
        The residuals as machine code.
    """

    def __init__(
        self,
        model: Integrator,
        inputs: torch.Tensor,
        targets: torch.Tensor,
        objective: Objective,
        *,
        name: str = "adam",
        batch: int | None = None,
        learning_rate: float | None = None,
        generator: torch.Generator,
        compiled: CompiledResidual | None = None,
    ) -> None:
        self.model, self.objective, self.generator = model, objective, generator
        self.inputs, self.targets = inputs, objective.new_states(model, targets)
        self.batch = batch or BATCH
        self.learning_rate = learning_rate or _LEARNING_RATE
        self.gradient = Gradient(model, objective, compiled)
        # one vector instead of many small tensors, or the update would take longer than the rest
        self.parameters = torch.nn.Parameter(self.gradient.vector.read())
        # the step counter is a tensor like the rest, so that a checkpoint holds all of the state
        self.optimizer = _ALGORITHMS[name]([self.parameters], lr=self.learning_rate)

    def epoch(self, progress: float) -> float:
        """Train on every window once.

        Parameters
        ----------
        progress
            Share of the budget used, 0 to 1, which sets the learning rate.

        Returns
        -------
        float
            Relative error on the windows while they were passed.
        """
        decay = 0.5 * (1 + math.cos(math.pi * min(progress, 1.0)))
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate * (1e-3 + (1 - 1e-3) * decay)
        order = torch.randperm(len(self.inputs), generator=self.generator)
        self.parameters.data.copy_(self.gradient.vector.read())
        sums = self.inputs.new_zeros(3)
        self.model.train()
        for chosen in order.to(self.inputs.device).split(self.batch):
            inputs, targets = (all_.index_select(0, chosen) for all_ in (self.inputs, self.targets))
            inputs = self.objective.noisy(self.model, inputs, self.generator)
            inputs, targets = processes.share(inputs), processes.share(targets)
            # the sum over this process's windows; all processes' together make the mean
            found, gradient = self.gradient(self.parameters, inputs, targets)
            mean = gradient / (len(chosen) * self.targets[0].numel())
            self.parameters.grad = processes.total(mean)
            self.optimizer.step()
            sums[:2] += found
            sums[2] += targets.square().sum()
        self.model.eval()
        self.gradient.vector.write(self.parameters.detach())
        _, squares, size = processes.total(sums).tolist()
        return math.sqrt(squares / size) if size > 0 else math.sqrt(squares)

    def observe(self, training_error: float, validation_error: float) -> None:
        """Nothing to adapt: all windows are in use."""

    def roll_back(self) -> None:
        """The model was set back to better weights: go on from them, more carefully."""
        self.learning_rate *= 0.3
        self.optimizer.state.clear()

    def state(self) -> State:
        """All that changes."""
        # torch changes its tensors in place
        found = self.optimizer.state_dict()["state"].get(0, {})
        tensors = {f"0.{name}": tensor.clone() for name, tensor in found.items()}
        return State(tensors, {"learning_rate": self.learning_rate})

    def restore(self, state: State) -> None:
        """Go on from a state."""
        like = {
            "step": torch.tensor(0.0),
            "exp_avg": self.parameters.detach(),
            "exp_avg_sq": self.parameters.detach(),
        }
        state.only([f"0.{name}" for name in like], ["learning_rate"])
        self.learning_rate = state.number("learning_rate", least=0)
        found = {
            name: state.tensor(f"0.{name}", like[name]).clone() for name in like if state.tensors
        }
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict(
            {"state": {0: found} if found else {}, "param_groups": groups}
        )
