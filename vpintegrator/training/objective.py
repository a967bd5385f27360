"""Training objective: predicted minus true states, one window ahead or more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch.func import functional_call

from vpintegrator.arguments import check, not_negative, whole
from vpintegrator.errors import InputError
from vpintegrator.models import Integrator
from vpintegrator.names import LOSSES


@dataclass(frozen=True)
class Objective:
    r"""A least-squares problem.

    .. math:: \sum_{\text{windows}} \sum_{k=1}^{H P}
        \left\| W \left( z_k^{\text{predicted}} - z_k^{\text{true}} \right) \right\|^2

    over the H P states that H predictions of P states each make of a window, with the weights
    :math:`W = I` or those of the model's normalisation,
    :math:`W = \operatorname{diag}(1/\text{scale})`.

    Attributes
    ----------
    loss
        ``mean-square``: differences in units of the model's normalisation, so that every component
        counts alike. ``relative``: in the units of the states, so that the sum of squares is that
        of the relative L2 error (the loss of arXiv 2312.11166).
    horizon
        Number H of predictions, each made from the one before. More than one teaches the model what
        happens on its own windows, which lie off the surface that true windows fill.
    noise
        Standard deviation of random noise on the inputs, in units of the model's normalisation,
        for the same purpose.

    Raises
    ------
    InputError
        If a value is out of range.

    Examples
    --------
    >>> dataset = vp.generate("pendulum", "pendulum.h5", count=10, steps=10, overwrite=True)
    >>> model = vp.models.VolumePreservingFeedForward(dim=2)
    >>> objective = vp.training.Objective(horizon=2, noise=1e-3)
    >>> vp.train(model, dataset, objective=objective, epochs=2).epochs
    2
    """

    loss: str = "mean-square"
    horizon: int = 1
    noise: float = 0.0

    def __post_init__(self) -> None:
        if self.loss not in LOSSES:
            raise InputError(f"loss = '{self.loss}' is none of {', '.join(LOSSES)}")
        check(self, horizon=whole, noise=not_negative)

    def residuals_of_window(self, model: Integrator) -> int:
        """Return the number of components that are predicted from a window."""
        return self.horizon * model.prediction_window * model.dim

    def new_states(self, model: Integrator, targets: torch.Tensor) -> torch.Tensor:
        """Return the true states to be predicted, out of targets (..., time, dim)."""
        return targets[..., targets.shape[-2] - self.horizon * model.prediction_window :, :]

    def difference(
        self,
        model: Integrator,
        inputs: torch.Tensor,
        new_states: torch.Tensor,
        parameters: Mapping[str, torch.Tensor] | None = None,
    ) -> torch.Tensor:
        """Return predicted minus true states, (..., horizon * prediction_window, dim).

        With ``parameters`` these take the place of the model's own.
        """
        new, window = model.prediction_window, inputs
        predictions = []
        for _ in range(self.horizon):
            output = (
                model(window)
                if parameters is None
                else functional_call(model, dict(parameters), (window,))
            )
            predictions.append(output[..., model.window - new :, :])
            window = (
                output
                if new == model.window
                else torch.cat([window[..., new:, :], predictions[-1]], dim=-2)
            )
        predicted = predictions[0] if self.horizon == 1 else torch.cat(predictions, dim=-2)
        return predicted - new_states

    def weighted(self, model: Integrator, difference: torch.Tensor) -> torch.Tensor:
        """Return the residuals whose squares are summed."""
        return difference / model.state_scale if self.loss == "mean-square" else difference

    def noisy(
        self, model: Integrator, inputs: torch.Tensor, generator: torch.Generator
    ) -> torch.Tensor:
        """Return the inputs with fresh noise, if there is to be any."""
        if not self.noise:
            return inputs
        noise = torch.randn(inputs.shape, generator=generator, dtype=inputs.dtype)
        return inputs + self.noise * model.state_scale * noise.to(inputs.device)
