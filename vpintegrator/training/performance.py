"""Error and cost of a step, of learned and classical maps."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch

from vpintegrator.compiled import NotCompilable, compile_model
from vpintegrator.errors import InputError
from vpintegrator.models import Integrator
from vpintegrator.runtime.deadline import TimeIsUp, check_time
from vpintegrator.storage.reading import read_json

TRAJECTORIES, STEPS, _REPEATS = 1_000, 10, 3
LARGEST = 10_000  # operations of a map that is compiled in some seconds


@dataclass(frozen=True)
class Performance:
    """Error and cost of a map.

    Attributes
    ----------
    name
        Name of the model or the method.
    error
        Error one step ahead on the test group, relative to the spread of the components that move;
        infinite if a model overflows.
    cost
        Seconds for a step of one of 1,000 trajectories, as it runs; nan where it is not measured.
    """

    name: str
    error: float
    cost: float = math.nan

    @property
    def row(self) -> dict[str, object]:
        """Return the entry of a file: without numbers that are not finite."""
        values = asdict(self).items()
        return {k: v for k, v in values if not isinstance(v, float) or math.isfinite(v)}

    @classmethod
    def from_row(cls, row: Any) -> Performance:
        """Return what ``row`` wrote.

        Raises
        ------
        KeyError, TypeError, ValueError
            If it is no such row.
        """
        name = str(row["name"])
        return cls(name, float(row.get("error", math.inf)), float(row.get("cost", math.nan)))


def read_performances(
    text: str, where: str, *keys: str
) -> tuple[dict[str, Any], list[Performance]]:
    """Return the content of a text about models, and the rows that stand under ``keys``.

    Parameters
    ----------
    text
        JSON, as training writes it.
    where
        Name of the text in messages.
    keys
        Names of a row, or of a list of rows.

    Raises
    ------
    InputError
        If it is no such text.
    """
    found = read_json(text, where)
    try:
        parts = [found[key] for key in keys]
        rows = [row for part in parts for row in (part if isinstance(part, list) else [part])]
        return found, [Performance.from_row(row) for row in rows]
    except (KeyError, TypeError, ValueError):
        raise InputError(f"{where} is not what a training writes") from None


def cost_of_model(model: Integrator, windows: torch.Tensor) -> float:
    """Return the seconds of a step for one of 1,000 trajectories, as machine code.

    Parameters
    ----------
    model
        Trained model.
    windows : (any, window, dim)
        Some of the training windows, which are repeated.

    Returns
    -------
    float
        Seconds; nan without machine code, or if its compilation takes longer than the time left.
    """
    windows = windows[torch.arange(TRAJECTORIES) % len(windows)].cpu()
    try:
        machine = compile_model(model, TRAJECTORIES, windows.numpy(), LARGEST)
    except (NotCompilable, TimeIsUp):
        return math.nan
    given = windows.numpy().astype(machine.dtype)
    return cost_of_steps(lambda: machine.advance(given, STEPS)) / model.prediction_window


def cost_of_steps(run: Callable[[], object]) -> float:
    """Return the least seconds of some runs, for a step of a trajectory; nan if the time is up."""
    spent: list[float] = []
    try:
        while len(spent) < _REPEATS:
            check_time(max(spent, default=0.0))
            start = time.perf_counter()
            run()
            spent.append(time.perf_counter() - start)
    except TimeIsUp:
        pass
    return min(spent, default=math.nan) / STEPS / TRAJECTORIES
