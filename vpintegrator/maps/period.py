"""Classical methods over the period of a stroboscopic map."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from vpintegrator.dynamics import System
from vpintegrator.errors import InputError
from vpintegrator.maps.base import ClassicalMap, ClassicalMethod, OneStepMethod
from vpintegrator.maps.map import Map, Parameters

if TYPE_CHECKING:
    from torch import Tensor


def period_flow_of(system: System) -> System | None:
    """Return the flow whose stroboscopic map ``system`` is; None if there is none.

    Examples
    --------
    >>> from vpintegrator.maps.period import period_flow_of
    >>> period_flow_of(vp.return_map("forced-duffing", "t = 0")).components
    ('q', 'p', 't')
    """
    returns = system.equations.returns
    return system.flow if returns is not None and returns.stroboscopic else None


class PeriodMap(Map):
    """A classical method over the period of a stroboscopic map, without the time.

    A method with a fixed step takes ``steps`` of them in a period; a method with an adaptive step
    size goes over the period at once.

    Parameters
    ----------
    method
        The method.
    system
        The stroboscopic map.
    steps
        Steps in a period. By default the step is about the one that the file of the flow suggests.

    Raises
    ------
    InputError
        If the map is not stroboscopic, or the method does not apply to its flow.

    Examples
    --------
    >>> duffing = vp.return_map("forced-duffing", "t = 0")
    >>> map = vp.classical("rk4@200", duffing)
    >>> state = np.array([[[1.0, 0.1]]])
    >>> bool(np.abs(map.map(state) - duffing.map(state)).max() < 1e-6)
    True
    """

    kind = "classical"
    system: System

    def __init__(self, method: ClassicalMethod, system: System, steps: int | None = None) -> None:
        flow = period_flow_of(system)
        returns = system.equations.returns
        if flow is None or returns is None:
            raise InputError(
                f"{method.name} needs a vector field, but {system.name} is a map that is not "
                "stroboscopic: its steps are iterations"
            )
        period = returns.crossings * (flow.period or math.nan)
        fixed = isinstance(method, OneStepMethod)
        if steps is not None and not fixed:
            raise InputError(
                f"{method.name}@{steps}: {method.name} has an adaptive step size; leave @ out"
            )
        self.name = method.name if steps is None else f"{method.name}@{steps}"
        suggested = flow.defaults.get("step", period / 100)
        count = max(round(period / suggested), 1) if fixed else 1
        self.steps = count if steps is None else steps * returns.crossings
        self._classical = ClassicalMap(method, flow, period, self.steps)
        self.inner: Map = self._classical
        self.title = f"{method.title}, {self.steps} steps" if fixed else method.title
        self.description = method.source
        self.order = method.order
        self.structure = method.structure(flow)
        self.differentiable = fixed
        self.system = system
        self.dim = system.dim
        self._phase = float(returns.value)  # type: ignore[arg-type]

    def embedded(self, states: np.ndarray) -> np.ndarray:
        """Return states of the flow (n, dim) at states of the map."""
        moving = states[:, : self.inner.dim - 1]
        return np.hstack([moving, np.full((len(states), 1), self._phase)])

    def __call__(self, states: Tensor, parameters: Parameters | None = None) -> Tensor:
        """Return the states one period later, as :meth:`ClassicalMap.__call__` does."""
        import torch

        phase = states.new_full((*states.shape[:-1], 1), self._phase)
        states = torch.cat([states, phase], dim=-1)
        return self._classical(states, parameters)[..., :-1]

    def map(self, windows: np.ndarray, parameters: Parameters | None = None) -> np.ndarray:
        return next(self.states(windows, parameters))

    @property
    def derivative_epsilon(self) -> float:
        """Relative error of a product of the derivatives of all steps."""
        return self._classical.derivative_epsilon

    def derivative(self, windows: np.ndarray, parameters: Parameters | None = None) -> np.ndarray:
        """Return the product of the derivatives of the steps in a period."""
        full = self.embedded(windows[:, 0])[:, None]
        return np.ascontiguousarray(self.inner.derivative(full, parameters)[:, :-1, :-1])

    def states(
        self, windows: np.ndarray, parameters: Parameters | None = None
    ) -> Iterator[np.ndarray]:
        first = self.embedded(windows[:, 0])[:, None]
        for states in self.inner.advance(first, sys.maxsize, chunk=1, parameters=parameters):
            yield states[..., :-1]
