"""Change of invariants of the system along trajectories."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from vpintegrator.arguments import of_kind, real_array
from vpintegrator.dynamics import System
from vpintegrator.dynamics.structure import ensemble_size, size_of, terms_of
from vpintegrator.rollout.diagnostics.diagnostic import Diagnostic, Ensemble, fold, larger
from vpintegrator.rollout.diagnostics.drift import DriftAccumulator, DriftFit, fit_drift
from vpintegrator.rollout.diagnostics.trajectory_error import infinite_where_nan
from vpintegrator.rollout.report import Report, Run, Summary
from vpintegrator.rollout.variables import SERIES, TRAJECTORY, Column, Measurement, Variable

_KINDS = {"relative": "rel. error", "absolute": "abs. error"}
_ENSEMBLE = "the largest value of any trajectory at the start"
CHANGED = 100.0  # sizes of an invariant


@dataclass(frozen=True)
class InvariantError:
    r"""Change of an invariant I along trajectories.

    Attributes
    ----------
    error
        :math:`(I(z_t) - I(z_0)) / \max |I(z_0)|`, with the largest value of all trajectories, or
        :math:`I(z_t) - I(z_0)` if :math:`I(z_0)` vanishes in all, (trajectory, time).
    relative
        Whether the error is the first of these, relative to the largest value.
    drift
        Straight line fitted to the error; NaN if no times were given.
    """

    error: np.ndarray
    relative: bool
    drift: DriftFit

    def __repr__(self) -> str:
        largest = self.largest.max(initial=0.0)
        return f"<InvariantError: {self.kind}, at most {largest:.1e} on {len(self.error)} orbits>"

    @property
    def kind(self) -> str:
        """``relative`` or ``absolute``."""
        return "relative" if self.relative else "absolute"

    @property
    def largest(self) -> np.ndarray:
        """Largest absolute value over the times, infinite after a divergence, (trajectory,)."""
        return infinite_where_nan(np.abs(self.error).max(axis=-1, initial=0.0))


def invariant_errors(
    system: System, states: np.ndarray, times: np.ndarray | None = None
) -> dict[str, InvariantError]:
    """Return the errors of all invariants of the system along states (trajectory, time, dim).

    With ``times`` (time,) the drift of each is fitted too.

    Parameters
    ----------
    system
        The system whose invariants these are.
    states
        Along trajectories, (trajectory, time, dim).
    times
        Times of the states, (time,), increasing; None for no drift.

    Returns
    -------
    dict of str to InvariantError
        Errors by name of the invariant.

    Examples
    --------
    >>> pendulum = vp.load_system("pendulum")
    >>> states = vp.integrate(pendulum, "stoermer-verlet", [[1.0, 0.0]], 0.1, 1000)
    >>> errors = vp.rollout.invariant_errors(pendulum, states)
    >>> bool(errors["energy"].largest.max() < 3e-3)
    True
    """
    of_kind("system", system, System, "a system, as vp.load_system gives it")
    states = real_array("states", states, ("trajectory", "time", "dim"))
    result = {}
    for name, invariant in system.invariants.items():
        change = _Change(invariant, states[:, 0])
        error = change(states)
        unknown = np.full(len(error), np.nan)
        drift = DriftFit(unknown, unknown) if times is None else fit_drift(times, error)
        result[name] = InvariantError(error, change.size > 0, drift)
    return result


def series_names(invariants: Iterable[str]) -> dict[str, str]:
    """Return names for the series of invariants in files: the name of the invariant, or a number.

    An invariant gets a number if its name is not valid for an array in a file, or clashes. For
    example, the drift of an invariant ``error_x`` would clash with the error of the drift of ``x``.

    Parameters
    ----------
    invariants
        Names of invariants.

    Returns
    -------
    dict of str to str
        Names of series by names of invariants.

    Examples
    --------
    >>> series_names(["energy", "L/2"])
    {'energy': 'energy', 'L/2': '1'}
    """
    names = list(invariants)
    fit = {name for name in names if re.fullmatch(r"[^/\x00]{1,200}", name)}
    fit -= {f"error_{name}" for name in fit}
    numbers = map(str, itertools.count(1))
    free = (number for number in numbers if not {number, f"error_{number}"} & fit)
    return {name: name if name in fit else next(free) for name in names}


class _Change:
    """Change of an invariant along states (trajectory, time, dim) since the initial states."""

    @np.errstate(all="ignore")
    def __init__(self, invariant: Callable[[Any], Any], initial: np.ndarray) -> None:
        self._invariant = invariant
        self._first = np.asarray(invariant(initial), dtype=np.float64)
        self.size = ensemble_size(self._first, terms_of(invariant, initial))
        # an orbit that has changed by so much is lost
        self.most = CHANGED * (1.0 if self.size > 0 else size_of(invariant, initial) or np.inf)

    @np.errstate(all="ignore")
    def begin(self, initial: np.ndarray) -> None:
        """Take other initial states (trajectory, dim), from which changes count."""
        self._first = np.asarray(self._invariant(initial), dtype=np.float64)

    @np.errstate(all="ignore")
    def __call__(self, states: np.ndarray) -> np.ndarray:
        return (self._invariant(states) - self._first[:, None]) / (self.size or 1.0)


_DRIFT = "drift of {name} per unit of time"
_RELATIVE = "1 where the change of {name} is relative, 0 where it is absolute"
_STORED = (
    Variable(
        "error",
        "change of {name} since the stored time before",
        *(SERIES, "invariant_{key}"),
        attributes={"kind": "{kind}", "relative_to": _ENSEMBLE},
    ),
    Variable("relative", _RELATIVE, TRAJECTORY, "relative_{key}", True, whole=True),
    Variable("slope", _DRIFT, TRAJECTORY, "drift_{key}", True),
    Variable("standard_error", f"standard error: {_DRIFT}", TRAJECTORY, "drift_error_{key}", True),
)


def _parts(change: InvariantError) -> dict[str, Any]:
    relative = np.full(len(change.error), change.relative, dtype=np.int8)
    return {**vars(change.drift), "error": change.error, "relative": relative, "kind": change.kind}


def _joined(
    error: np.ndarray, relative: np.ndarray, slope: np.ndarray, standard_error: np.ndarray
) -> InvariantError:
    return InvariantError(error, bool(relative.all()), DriftFit(slope, standard_error))


def _keys(system: System) -> dict[str, str]:
    return series_names(system.invariants)


class Invariants(Diagnostic):
    """Change of the system's invariants.

    Those of observed orbits are taken at complete states, where the observed components, their
    rates or the momenta of a model determine these; then changes count from the first of them.

    The measurement is ``invariants``, an :class:`InvariantError` by name. The summary holds, also
    by name: ``invariants``, the largest error over trajectories and steps, infinite where one
    diverges; ``invariants_kept``, whether this error is at most ``invariants_rounding``;
    ``invariant_kinds``, whether the error is relative, or absolute
    because the invariant vanishes; ``drifts`` and ``drift_errors``, the drift of largest size, per
    unit of time, and its standard error.
    """

    variables = (Measurement("invariants", _STORED, _joined, _parts, _keys),)

    def __init__(self, ensemble: Ensemble) -> None:
        super().__init__(ensemble)
        complete = self.plan.complete
        initial = self.plan.initial if complete is None else complete.initial
        count = len(initial)
        # of each the change, the largest ones (time, trajectory), and the drift
        self._changes = {
            name: (_Change(each, initial), ensemble.series(), DriftAccumulator(count))
            for name, each in self.plan.complete_system.invariants.items()
            if complete is None or ensemble.completion is not None
        }
        self._begins = complete is not None and not ensemble.is_complete

    def observe(self, start: int, states: np.ndarray) -> None:
        if self.plan.complete is not None:
            if self.ensemble.completed is None:
                return
            start, states = self.ensemble.completed
            if not states.shape[1]:
                return
        if self._begins:
            for change, *_ in self._changes.values():
                change.begin(states[:, 0])
            self._begins = False
        times = self.plan.step * np.arange(start, start + states.shape[1])
        with np.errstate(all="ignore"):
            for change, largest, drift in self._changes.values():
                values = change(states)
                drift.update(times, values)
                self.ensemble.lose(start, np.abs(values) > change.most)
                fold(larger, start, values, self.plan.stored, largest)

    def result(self) -> dict[str, Any]:
        changes = self._changes.items()
        errors = {n: InvariantError(v.T, c.size > 0, d.fit()) for n, (c, v, d) in changes}
        return {"invariants": errors}

    @classmethod
    def summary(cls, run: Run, report: Report) -> dict[str, Any]:
        errors: dict[str, InvariantError] = run.invariants
        lost = np.isfinite(run.divergence_time)
        slopes = {n: np.where(lost, np.nan, v.drift.slope) for n, v in errors.items()}
        drifts = {n: (slopes[n], v.drift.standard_error) for n, v in errors.items()}
        worst = {n: int(np.argmax(np.abs(np.nan_to_num(s)))) for n, (s, _) in drifts.items()}
        largest = {n: float(np.where(lost, np.inf, v.largest).max()) for n, v in errors.items()}
        rounding = run.rounding(report.times[-1] / report.step)
        return {
            "invariants": largest,
            "invariants_rounding": dict.fromkeys(largest, rounding),
            "invariant_kinds": {name: v.kind for name, v in errors.items()},
            "drifts": {name: float(slope[worst[name]]) for name, (slope, _) in drifts.items()},
            "drift_errors": {
                name: float(error[worst[name]]) for name, (_, error) in drifts.items()
            },
        }

    @classmethod
    def verdicts(cls, summary: Summary) -> dict[str, Any]:
        most = summary.invariants_rounding
        kept = {name: value <= most[name] for name, value in summary.invariants.items()}
        return {"invariants_kept": kept}

    @classmethod
    def columns(cls, report: Report) -> list[Column]:
        first = {n: each for run in report.runs.values() for n, each in run.invariants.items()}
        columns: list[Column] = []
        for name, label in report.invariant_labels.items():
            if name not in first:
                continue
            later = 6 if columns else 0  # columns of later invariants are dropped first
            kind = (label, _KINDS[first[name].kind])
            uncertain = f"{label} drift ±"
            columns += [
                Column(f"{label} error", ("invariants", name), header=kind, rank=13 - later),
                Column(f"{label} error kind", ("invariant_kinds", name), "hidden"),
                Column(
                    uncertain[:-2], ("drifts", name), "drift", rank=12 - later, beside=uncertain
                ),
                Column(uncertain, ("drift_errors", name), "hidden"),
            ]
        return columns
