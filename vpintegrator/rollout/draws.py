"""Trajectories of models that are drawn from a posterior, all at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, vmap

from vpintegrator.compiled import CompiledModel
from vpintegrator.models import Integrator
from vpintegrator.models.one_step import simplified
from vpintegrator.models.posterior import checked
from vpintegrator.nn.implicit import unrolled
from vpintegrator.rollout.neural import WORTH, LearnedCursor, as_windows, compile_for


class DrawnModels(nn.Module):
    """Equal models with different coefficients, as one map of windows of all draws.

    Parameters
    ----------
    draws
        The models. Windows are those of the first draw, then those of the second, and so on.
    """

    def __init__(self, draws: Sequence[Integrator]) -> None:
        super().__init__()
        self.first, self.draws = draws[0], len(draws)
        like = draws[0]
        self.name, self.dim, self.window = like.name, like.dim, like.window
        self.prediction_window = like.prediction_window
        self.explicit_time, self.periods = like.explicit_time, like.periods
        self.weights = {
            name: torch.stack([each.get_parameter(name).detach() for each in draws])
            for name, value in like.named_parameters()
            if value.requires_grad
        }

    def get_buffer(self, target: str) -> torch.Tensor:
        return self.first.get_buffer(target)

    def predict(self, window: torch.Tensor) -> torch.Tensor:
        """Return the states after windows (draw * trajectory, window, dim)."""
        given = window.unflatten(0, (self.draws, -1))
        with unrolled():
            found = vmap(self._one)(self.weights, given)
        # a fixed number of Newton iterations may be too few
        lost = given.isfinite().all((-1, -2)) & ~found.isfinite().all((-1, -2))
        for k in lost.any(1).nonzero().flatten().tolist():
            weights = {name: value[k] for name, value in self.weights.items()}
            found[k] = self._one(weights, given[k])
        return found[..., self.window - self.prediction_window :, :].flatten(0, 1)

    def _one(self, weights: dict[str, torch.Tensor], window: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = functional_call(self.first, weights, (window,))
        return result


class DrawnTrajectories:
    """Trajectories of all draws from windows (draw, trajectory, window, dim).

    Parameters
    ----------
    draws
        Models that differ by their coefficients.
    windows
        First windows.
    machine
        One of them as machine code, whose weights the others replace; None for PyTorch.
    """

    def __init__(
        self, draws: Sequence[Integrator], windows: torch.Tensor, machine: Any = None
    ) -> None:
        machines = None
        if isinstance(machine, CompiledModel):
            machines = [machine.with_weights_of(simplified(each)) for each in draws]
        self._count = len(draws)
        if machines is not None and None not in machines:
            self._cursors = [
                LearnedCursor(each, window, compiled=own)
                for each, window, own in zip(draws, windows, machines, strict=True)
            ]
        else:
            together: Any = DrawnModels(draws)
            self._cursors = [LearnedCursor(together, windows.flatten(0, 1))]

    def advance(self, count: int) -> np.ndarray:
        """Return the next ``count`` states (draw, trajectory, count, dim)."""
        states = np.concatenate([cursor.advance(count) for cursor in self._cursors])
        return states.reshape(self._count, -1, *states.shape[1:])


def rollout_draws(
    model: Integrator,
    initial: Any,
    steps: int,
    samples: int,
    seed: int = 0,
    compiled: bool | None = None,
) -> Any:
    """Return trajectories (draw, trajectory, steps + 1, dim) of models drawn from a posterior.

    The arguments are those of :func:`vpintegrator.rollout.rollout`.

    Raises
    ------
    InputError
        If an argument is wrong, or the model holds no posterior.
    """
    checked(model)
    first = as_windows(model, initial)
    windows = first[None].expand(samples, -1, -1, -1)
    if compiled is None and samples * steps < WORTH:
        compiled = False
    machine = compile_for(model, len(first), compiled)
    draws = DrawnTrajectories(model.sample(samples, seed), windows, machine)
    later = draws.advance(max(steps + 1 - model.window, 0))
    found = np.concatenate([windows.double().cpu().numpy(), later], 2)[:, :, : steps + 1]
    if isinstance(initial, torch.Tensor):
        return torch.from_numpy(found).to(first)
    return found.astype(first.cpu().numpy().dtype)
