"""Maps that advance the states of an ensemble, in this process or another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vpintegrator.dynamics import System
from vpintegrator.errors import InputError
from vpintegrator.rollout.flow import LearnedFlow, NumericalFlow
from vpintegrator.rollout.neural import compile_for

if TYPE_CHECKING:
    from vpintegrator.models import Integrator

Move = Callable[[np.ndarray, int], np.ndarray]

IN_A_CACHE = 2_048  # trajectories whose states of some steps stay in one
_ON_A_GPU = 65_536  # trajectories that keep one busy


@dataclass(frozen=True)
class Mover:
    """Description of a flow from which another process can make it.

    Attributes
    ----------
    flow
        A flow without a model; it is pickled.
    model
        File of a model.
    system, step
        System and time step of the model.
    compiled
        Whether the model, or a classical method, runs as machine code; the default is to do so if
        possible.
    device
        Device of the model.
    """

    flow: NumericalFlow | None = None
    model: Path | None = None
    system: System | None = None
    step: float | None = None
    compiled: bool | None = None
    device: str = "cpu"

    @property
    def block(self) -> int:
        """Trajectories to move at a time."""
        return IN_A_CACHE if self.device == "cpu" else _ON_A_GPU

    def move(self) -> Move:
        """Return the function that advances states (n, dim) by ``count`` steps, (n, count, dim)."""
        if self.flow is not None:
            return _by_flow(self.flow, self.compiled)
        assert self.model is not None
        stamp = self.model.stat().st_mtime_ns
        return _loaded(self.model, stamp, self.system, self.step, self.compiled, self.device)


def of_single_states(model: Integrator) -> Integrator:
    """Return the map of a single state that is equivalent to a model.

    Raises
    ------
    InputError
        If the model needs several states.
    """
    from vpintegrator.models.one_step import one_step

    if model.window == 1:
        return model
    alone = one_step(model)
    if alone is None:
        raise InputError(
            f"{model.name} reads {model.window} states; ensembles are for maps of a single state "
            "(window 1)"
        )
    return alone


@lru_cache(2)
def _loaded(
    path: Path,
    stamp: int,
    system: System | None,
    step: float | None,
    compiled: bool | None,
    device: str,
) -> Move:
    """Return the function of a model file, read once as long as the file does not change."""
    from vpintegrator.models import load

    return move_model(load(path, device), system, step, compiled)


def move_model(
    model: Integrator, system: System | None, step: float | None, compiled: bool | None
) -> Move:
    """Return the function of :meth:`Mover.move` for a model in memory."""
    from vpintegrator.runtime.threads import torch_threads

    machine = compile_for(model, 0, compiled)
    if machine is None or getattr(model, "explicit_time", False):
        return _by_flow(LearnedFlow(model, system, step=step, compiled=machine), False)

    def move(states: np.ndarray, count: int) -> np.ndarray:
        with torch_threads(1):
            return machine.advance(states[:, None], count)[0]

    return move


def _by_flow(flow: NumericalFlow, compiled: bool | None) -> Move:
    """Return the function of a flow, which is compiled for the first states if possible."""
    ready = flow if compiled is False else None

    def move(states: np.ndarray, count: int) -> np.ndarray:
        nonlocal ready
        ready = ready or flow.compile(states, compiled)
        return ready.start(states[:, None]).advance(count)

    return move
