"""Table of a model and of baselines: errors, structure, seconds of training, cost."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch

from vpintegrator.arguments import check_integrator, positive
from vpintegrator.baselines.base import Baseline, BaselineData, Step
from vpintegrator.baselines.gaussian_process import GaussianProcess
from vpintegrator.baselines.hamiltonian_network import HamiltonianNetwork
from vpintegrator.baselines.least_squares_map import LeastSquaresMap
from vpintegrator.baselines.sparse_regression import SparseRegression
from vpintegrator.data import Dataset
from vpintegrator.errors import InputError
from vpintegrator.models import Integrator
from vpintegrator.models.one_step import simplified
from vpintegrator.storage.reading import read_json
from vpintegrator.training.performance import TRAJECTORIES, cost_of_model
from vpintegrator.training.residuals import relative
from vpintegrator.training.training_data import TrainingData

KEY = "baselines"  # key of the metadata
BASELINES: tuple[type[Baseline], ...] = (
    LeastSquaresMap,
    SparseRegression,
    HamiltonianNetwork,
    GaussianProcess,
)
_FOLDS = 5
_STATES = 200_000  # states of a group that are read
_RUNS = 3  # of a step, of which the fastest counts


@dataclass(frozen=True)
class BaselineRow:
    """A learned map in the table.

    Attributes
    ----------
    name
        Name of the baseline or of the model.
    error
        Root mean square error one step ahead, relative to the spread of the components that move.
    rollout
        The same over all states of trajectories that are iterated from their first states; nan
        where they have two states.
    structure
        Structure that the map keeps by construction.
    seconds
        Seconds of training.
    cost
        Seconds for a step of one of 1,000 trajectories.
    reason
        Reason why the baseline was not trained, or empty.
    """

    name: str
    error: float = math.nan
    rollout: float = math.nan
    structure: str = "none"
    seconds: float = math.nan
    cost: float = math.nan
    reason: str = ""

    @property
    def row(self) -> dict[str, object]:
        """Return the entry of a file: without unknown numbers, infinite ones as text."""
        known = {k: v for k, v in asdict(self).items() if v == v}
        return {k: str(v) if v == math.inf else v for k, v in known.items()}

    @classmethod
    def from_row(cls, row: Any) -> BaselineRow:
        """Return what ``row`` wrote.

        Raises
        ------
        AttributeError, TypeError, ValueError
            If it is no such row.
        """
        numbers = {"error", "rollout", "seconds", "cost"}
        values: dict[str, Any] = {k: float(v) if k in numbers else str(v) for k, v in row.items()}
        return cls(**values)


@dataclass(frozen=True)
class BaselineTable:
    """Rows of a table of baselines.

    Attributes
    ----------
    rows
        The model first, if there is one; then the baselines.
    judged_by
        Group of the errors: ``test group``, or ``5-fold cross-validation`` where there is none.
    """

    rows: list[BaselineRow]
    judged_by: str

    @property
    def text(self) -> str:
        """JSON for the metadata of a model."""
        return json.dumps({"judged by": self.judged_by, "rows": [each.row for each in self.rows]})

    @classmethod
    def from_text(cls, text: str, where: str) -> BaselineTable:
        """Return what ``text`` wrote.

        Raises
        ------
        InputError
            If it is no such text; says ``where`` it stands.
        """
        found = read_json(text, where)
        try:
            rows = [BaselineRow.from_row(row) for row in found["rows"]]
            return cls(rows, str(found["judged by"]))
        except (AttributeError, KeyError, TypeError, ValueError):
            raise InputError(f"{where} is not what a training writes") from None

    def __str__(self) -> str:
        return "\n".join(lines_of(self))


def compare(
    dataset: TrainingData | Dataset,
    model: Integrator | None = None,
    *,
    baselines: Sequence[type[Baseline]] = BASELINES,
    seconds: float = 60.0,
    seed: int = 0,
    progress: Callable[[str, int, int], None] | None = None,
) -> BaselineTable:
    """Train baselines on the training group of a dataset, and judge them beside a model.

    Parameters
    ----------
    dataset
        Dataset of the training.
    model
        Trained model, which gets the first row.
    baselines
        Classes of baselines.
    seconds
        Limit of all trainings together. Equal seeds give equal results where no limit is met.
    seed
        Seed of random weights and of the choice of pairs.
    progress
        Called with the name of a baseline, its number and the number of all.

    Returns
    -------
    BaselineTable
        A row each. Without a test group errors of baselines are cross-validated over trajectories,
        and that of the model is its validation error.

    Raises
    ------
    InputError
        If trajectories have steps or parameters of their own, or there are too few of them.

    Examples
    --------
    >>> dataset = vp.generate("pendulum", "pendulum.h5", count=40, steps=20, overwrite=True)
    >>> found = vp.baselines.compare(dataset, baselines=[vp.baselines.LeastSquaresMap])
    >>> found.rows[0].name, found.rows[0].error < 0.3
    ('linear map', True)
    """
    positive("seconds", seconds)
    data = TrainingData.of(dataset)
    check(data.dataset)
    splits, judged_by = _splits(data)
    rows = []
    if model is not None:
        check_integrator(model)
        rows.append(_row_of_model(model, data, splits[0][1]))
    end = time.perf_counter() + seconds
    for number, kind in enumerate(baselines):
        if progress is not None:
            progress(kind.name, number, len(baselines))
        left = (end - time.perf_counter()) / (len(baselines) - number)
        rows.append(_row_of_baseline(kind(), splits, data, max(left, 0.1), seed))
    return BaselineTable(rows, judged_by)


def check(dataset: Dataset) -> None:
    """Refuse a dataset that baselines cannot be trained on.

    Raises
    ------
    InputError
        See ``compare``.
    """
    if dataset.is_family or dataset.system.family is not None:
        raise InputError("baselines are maps of one step and one set of parameters; no family")
    if not dataset.shapes.get("test", (0,))[0] and dataset.shapes["train"][0] < _FOLDS:
        raise InputError(
            f"baselines are judged by a test group, or by {_FOLDS} parts of the training group; "
            f"there are {dataset.shapes['train'][0]} training trajectories"
        )


def lines_of(found: BaselineTable) -> list[str]:
    """Return the lines of the table."""
    from vpintegrator.plotting.tables import duration

    def number(value: float) -> str:
        return "-" if math.isnan(value) else f"{value:.1e}"

    lines = [["", "error", "rollout", "keeps", "training", "cost of a step"]]
    for row in found.rows:
        if row.reason:
            lines.append([row.name, row.reason])
            continue
        seconds = "-" if math.isnan(row.seconds) else f"{row.seconds:.1f} s"
        cost = duration(row.cost) if math.isfinite(row.cost) else "-"
        error, rollout = number(row.error), number(row.rollout)
        lines.append([row.name, error, rollout, row.structure, seconds, cost])
    whole = [line for line in lines if len(line) > 2]
    widths = [max(len(line[k]) for line in whole) for k in range(len(lines[0]))]
    widths[0] = max(len(line[0]) for line in lines)
    text = ["  ".join(c.ljust(w) for c, w in zip(line, widths, strict=False)) for line in lines]
    return [f"errors by {found.judged_by}", *(line.rstrip() for line in text)]


def _splits(data: TrainingData) -> tuple[list[tuple[BaselineData, BaselineData]], str]:
    """Return pairs of training and test data, and how they were made."""
    dataset = data.dataset
    system = dataset.system

    def states(group: str) -> np.ndarray:
        _, length, _ = dataset.shapes[group]
        return dataset.states(group, slice(0, max(1, _STATES // length)))

    canonical = (system.is_canonical and not system.canonical_order) or (
        system.is_measured and system.may_preserve_volume
    )
    own = BaselineData(
        states("train"),
        1.0 if system.is_discrete else dataset.step,
        system.periods,
        canonical and dataset.dim % 2 == 0 and system.explicit_time is None,
        system.is_discrete,
    )
    if data.tested:
        return [(own, replace(own, states=states("test")))], "test group"
    fold = np.arange(len(own.states)) % _FOLDS
    parts = [
        (replace(own, states=own.states[fold != k]), replace(own, states=own.states[fold == k]))
        for k in range(_FOLDS)
    ]
    return parts, f"{_FOLDS}-fold cross-validation"


def _row_of_baseline(
    baseline: Baseline,
    splits: Sequence[tuple[BaselineData, BaselineData]],
    data: TrainingData,
    seconds: float,
    seed: int,
) -> BaselineRow:
    row = BaselineRow(baseline.name, structure=baseline.structure)
    if reason := baseline.unsuited(splits[0][0]):
        return replace(row, reason=reason)
    errors, spent = [], []
    for own, held in splits:
        start = time.perf_counter()
        step = baseline.fit(own, seconds / len(splits), seed)
        spent.append(time.perf_counter() - start)
        errors.append(_errors(step, held, data))
    error, rollout = np.sqrt(np.mean(np.square(errors), 0)).tolist()
    cost = _cost(step, splits[0][0].before)
    return replace(row, error=error, rollout=rollout, seconds=float(np.mean(spent)), cost=cost)


def _row_of_model(model: Integrator, data: TrainingData, held: BaselineData) -> BaselineRow:
    told = read_json(model.metadata.get("training", "{}"), "what is told of the training")
    used = told.get("seconds") or [math.nan]
    kept = {
        "symplectic": model.symplectic,
        "conformally symplectic": bool(getattr(model.core, "damped", False)),
        "volume": model.volume_preserving,
    }
    structure = next((name for name, holds in kept.items() if holds), "none")
    error, rollout = float(told.get("best_validation_error", math.nan)), math.nan
    simple = simplified(model)
    if data.tested:
        error = data.test_error(model)
    if data.tested and simple.window == 1:

        def step(states: np.ndarray) -> np.ndarray:
            with torch.no_grad():
                window = torch.from_numpy(states[:, None]).to(simple.scale)
                return np.asarray(simple(window)[:, 0].double().numpy(force=True))

        rollout = _errors(step, held, data)[1]
    windows, _ = data.pairs(model)[torch.arange(min(len(data.pairs(model)), TRAJECTORIES))]
    cost = cost_of_model(simple, windows[:, -simple.window :])
    return BaselineRow(model.name, error, rollout, structure, float(used[-1]), cost)


def _errors(step: Step, held: BaselineData, data: TrainingData) -> tuple[float, float]:
    """Return relative errors one step ahead, and over trajectories from their first states."""
    scale, states = data.error_scale, held.states
    moving = list(scale.components)

    def error(found: np.ndarray, true: np.ndarray) -> float:
        wrong = held.difference(found, true)[..., moving]
        wrong = wrong[np.isfinite(true).all(-1)]
        value = relative(float((wrong**2).sum()), len(wrong), scale.spread)
        return value if math.isfinite(value) else math.inf

    with np.errstate(all="ignore"):
        ahead = error(step(held.before), held.after)
        begun = states[np.isfinite(states[:, 0]).all(1)]
        if states.shape[1] < 3 or not len(begun):
            return ahead, math.nan
        z, found = begun[:, 0], []
        for _ in range(states.shape[1] - 1):
            z = step(z)
            found.append(z)
        return ahead, error(np.stack(found, 1), begun[:, 1:])


def _cost(step: Step, states: np.ndarray) -> float:
    """Return the least seconds of some runs, for a step of one of 1,000 trajectories."""
    states = states[np.arange(TRAJECTORIES) % len(states)]
    spent: list[float] = []
    for _ in range(_RUNS):
        start: Any = time.perf_counter()
        step(states)
        spent.append(time.perf_counter() - start)
    return min(spent) / TRAJECTORIES
