"""Adam on shuffled batches of windows, with a learning rate that decays to almost zero."""

from __future__ import annotations

import math

import torch

from vpintegrator.models import Integrator
from vpintegrator.training.errors import prediction_residual


class Adam:
    """First-order training (Kingma and Ba, arXiv 1412.6980).

    One call of :meth:`epoch` passes over all windows once. The rate falls along a half cosine from
    ``learning_rate`` to a thousandth of it over the budget, which is what lets the error keep
    falling to the end.

    Parameters
    ----------
    model
        Trained in place.
    inputs, targets
        Pairs of windows, shape (pair, window, dim).
    batch
        Windows in a batch.
    learning_rate
        At the start.
    generator
        Of the shuffling.
    """

    def __init__(
        self,
        model: Integrator,
        inputs: torch.Tensor,
        targets: torch.Tensor,
        *,
        batch: int = 1024,
        learning_rate: float = 5e-3,
        generator: torch.Generator,
    ) -> None:
        self.model, self.inputs, self.targets = model, inputs, targets
        self.batch, self.learning_rate, self.generator = batch, learning_rate, generator
        self.optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)

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
        new = self.model.prediction_window
        residual = size = 0.0
        for chosen in order.to(self.inputs.device).split(self.batch):
            targets = self.targets[chosen]
            difference = prediction_residual(self.model, self.inputs[chosen], targets)
            loss = (difference / self.model.scale).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            residual += difference.detach().square().sum().item()
            size += targets[:, -new:].square().sum().item()
        return (residual / size) ** 0.5 if size > 0 else residual**0.5

    def observe(self, training_error: float, validation_error: float) -> None:
        """Nothing to adapt: all windows are in use."""
