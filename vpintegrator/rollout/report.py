"""Report of a comparison: states and measurements of every method beside a reference."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from vpintegrator.dynamics import Structure, System
from vpintegrator.dynamics.solve import bounded_sizes
from vpintegrator.dynamics.state_file import write_header, write_states, write_system
from vpintegrator.errors import InputError, nearest, printable
from vpintegrator.measure.rows import OneStepTable
from vpintegrator.rich_display import displayed
from vpintegrator.rollout.variables import TRAJECTORY, Column, Variable
from vpintegrator.storage.hdf5 import create_hdf5, write_attributes

if TYPE_CHECKING:
    import pandas

REFERENCE = "reference"
COMPLETE = "complete"
WORK_PRECISION = "work-precision"
RESERVED = (
    REFERENCE,
    WORK_PRECISION,
    COMPLETE,
)  # names of groups of a rollout file that are no methods
_SUMMARY = (
    "name",
    "title",
    "kind",
    "order",
    "structure",
    "remark",
    "provenance",
    "attention_summary",
)
FORMAT = "vpintegrator-rollout"
FORMAT_VERSION = 4
_STEP = ("step",)
STUDY = (
    Variable("step", "time step", _STEP, required=True),
    Variable("seconds", "seconds of a trajectory, for a unit of time", _STEP, required=True),
    Variable("evaluations", "evaluations of the field, likewise", _STEP, required=True),
    Variable("error", "root mean square error at the end", _STEP, required=True),
    Variable("order", "order of accuracy"),
)
ERROR = Variable("estimated_error", "largest error in any component", TRAJECTORY, required=True)
TEXTS = ("kind", "method", "title", "description", "remark", "provenance", "attention_summary")
WINDOWS = ("window", "prediction_window")
EPSILONS = ("machine_epsilon", "derivative_epsilon")


def rounding_error(epsilon: float, size: int, steps: float = 1.0) -> float:
    r"""Return the largest change of a conserved quantity that counts as rounding.

    .. math:: \max\bigl(32 \varepsilon \sqrt{d\, n},\; 10^{-12} \max(1, n / 200)\bigr)

    Rounding errors of a map are a few :math:`\varepsilon`, and those of d components and n steps
    add up like a random walk. Implicit methods are solved to about :math:`10^{-13}` in double
    precision, so smaller changes are not told apart.

    Parameters
    ----------
    epsilon
        Relative rounding error of the precision in which the map computes.
    size
        Number d of components.
    steps
        Number n of steps.

    Examples
    --------
    >>> from vpintegrator.rollout.report import rounding_error
    >>> print(f"{rounding_error(2.0**-52, 3):.1e} {rounding_error(2.0**-23, 3):.1e}")
    1.0e-12 6.6e-06
    """
    steps = max(1.0, steps)
    return max(32 * epsilon * math.sqrt(size * steps), 1e-12 * max(1.0, steps / 200))


@dataclass(frozen=True)
class Run:
    """Trajectories of one method and the measurements on them.

    The stored times are every ``every``-th step of the rollout. A largest value at a stored time is
    the largest over all steps since the stored time before.

    Attributes
    ----------
    name
        Name of the method in tables, figures and files.
    kind
        ``"learned"`` or ``"classical"``.
    method
        Name of the classical method or of the architecture.
    title, description
        Name of the method in figures, and a line about it.
    order
        Order of convergence; None for a learned map.
    structure, remark, provenance, attention_summary
        Structure of the map, what else is to be said of the map, its provenance (states or
        equations), and a sentence on its attention; else empty.
    window, prediction_window
        Time steps read and predicted in each call.
    machine_epsilon, derivative_epsilon
        Relative rounding error of the map, and that of its derivative.
    states
        States at the stored times, (trajectory, time, dim).
    measurements
        Values of the diagnostics by name; None for a value that does not exist. Each is an
        attribute too: ``error``, ``root_mean_square_error``, ``threshold_time``, ``invariants``,
        ``volume``, ``symplecticity``, ``reversibility``, ``lyapunov``, ``section``,
        ``evaluations_per_step``, ``failure_time``, ``divergence_time``, ``departure_time``,
        and those that are added. The classes in ``vpintegrator.rollout.diagnostics`` define them.
    seeds
        Runs of several models of one name, such as trainings with several seeds, of which this is
        the one of median error; empty for a single model.
    is_complete
        Whether the method runs in complete states, of which ``states`` are the observed part.
    """

    name: str
    kind: str
    method: str
    title: str
    description: str
    order: int | None
    structure: Structure
    remark: str
    provenance: str
    attention_summary: str
    window: int
    prediction_window: int
    machine_epsilon: float
    derivative_epsilon: float
    states: np.ndarray
    measurements: dict[str, Any] = field(repr=False)
    seeds: tuple[Run, ...] = field(default=(), repr=False)
    is_complete: bool = False

    @property
    def members(self) -> tuple[Run, ...]:
        """The runs of all models of this name; a single model alone."""
        return self.seeds or (self,)

    @property
    def typical(self) -> Run:
        """Run of median error among models of one name, which is drawn; else the run itself."""
        return next((each for each in self.seeds if each.states is self.states), self)

    @property
    def space(self) -> str:
        """The space of the map that is iterated: ``states``, or ``windows of 3 states``."""
        if self.is_complete:
            return "complete states"
        words = " with their own form" if self.structure.form == "lagrangian" else ""
        return "states" if self.window == 1 else f"windows of {self.window} states{words}"

    def rounding(self, steps: float = 1.0) -> float:
        """Return the largest change of an invariant in so many steps that counts as rounding."""
        return rounding_error(self.machine_epsilon, self.window * self.states.shape[-1], steps)

    def derivative_rounding(self, steps: float = 1.0) -> float:
        """Return the largest defect of derivatives of so many steps that counts as rounding."""
        return rounding_error(self.derivative_epsilon, self.window * self.states.shape[-1], steps)

    def __getattr__(self, name: str) -> Any:
        measurements = self.__dict__.get("measurements", {})
        if name in measurements:
            return measurements[name]
        raise AttributeError(
            f"'{name}' was not measured, or by an own diagnostic: open the file with "
            f"diagnostics=[...]; there are {', '.join(measurements)}"
        )

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.measurements})

    def __repr__(self) -> str:
        return (
            f"<Run {self.title} ({self.kind}): {len(self.states)} trajectories, "
            f"worst RMSE {self.root_mean_square_error.max():.1e}>"
        )


class Summary(SimpleNamespace):
    """Summary of one method; values that are not finite count as infinite errors.

    The attributes are ``name``, ``title``, ``kind``, ``order``, ``structure``, ``remark`` and
    ``attention_summary``, as in :class:`Run`, and the sums of the diagnostics: ``error``,
    ``worst_error``, ``final_error``, ``threshold_time``, ``invariants``, ``drifts``, ``volume``,
    ``volume_preserved``, ``lyapunov``, ``diverged``, and so on. The classes in
    ``vpintegrator.rollout.diagnostics`` define them.
    ``seeds`` is the number of models of this name, None for one; ``best_seed`` and ``worst_seed``
    are then the least and the largest ``error`` of them. Verdicts such as ``volume_preserved`` are
    about the numbers of the summary: over several models they are not joined, but follow from the
    joined number.
    """


def _joined(join: str, values: Sequence[Any], typical: int) -> Any:
    """Return one number for the models of a name, by the rule of their diagnostic.

    Parameters
    ----------
    join
        ``largest``, ``least``, or ``typical`` for that of the model of median error. Empty: the
        median of numbers, the sum of counts, and a truth value if it holds for all.
    values
        Values of the models, None where there is none.
    typical
        Index of the model of median error.
    """
    if join == "typical":
        return values[typical]
    known = [value for value in values if value is not None]
    first = known[0] if known else None
    if isinstance(first, dict):
        keys = dict.fromkeys(key for value in known for key in value)
        parts = {key: [v and v.get(key) for v in values] for key in keys}
        return {key: _joined(join, part, typical) for key, part in parts.items()}
    if isinstance(first, bool | np.bool_):
        return all(known)
    if isinstance(first, float | int) and join:
        return max(known) if join == "largest" else min(known)
    if isinstance(first, int):
        return sum(known)
    return float(np.median(known)) if isinstance(first, float) else values[typical]


def by_name(runs: Mapping[str, Run], seeds: Mapping[str, Sequence[str]]) -> dict[str, Run]:
    """Return runs by name, where those of several models of one name are one run.

    Parameters
    ----------
    runs
        Runs of all models and methods.
    seeds
        Names of the runs that share a name.
    """
    shared = {member: name for name, members in seeds.items() for member in members}
    result: dict[str, Run] = {}
    for run in runs.values():
        name = shared.get(run.name, run.name)
        if name in seeds and name not in result:
            members = tuple(runs[member] for member in seeds[name])
            errors = [np.median(member.root_mean_square_error) for member in members]
            typical = members[np.argsort(errors)[(len(errors) - 1) // 2]]
            title = f"{name} ({len(members)} seeds)"
            run = replace(typical, name=name, title=title, seeds=members)  # shares their states
        result.setdefault(name, run)
    return result


@dataclass(frozen=True)
class Report:
    """Several methods beside a reference, from the same initial states.

    Made by :func:`vpintegrator.compare` or :func:`vpintegrator.open_rollout`.

    Attributes
    ----------
    system
        The system.
    step
        Time step.
    every
        Number of steps between two stored times.
    times
        Stored times, (time,), from 0.
    reference
        Reference states at the first of the stored times, (trajectory, reference_time, dim): where
        it was told to end early, there are fewer of them.
    reference_error
        Estimate of their largest error, (trajectory,); NaN where the reference was given, measured
        say, and not solved for. Then single states of it may be NaN too: nothing is known there.
    threshold
        The error at which a method is taken to have failed.
    step_table
        Error and cost of a step of every method, and of methods with the error of a model.
    runs
        The methods by name, learned ones first. Several models of one name are one run, with all
        of them in its ``seeds``.
    seed
        Seed of the initial states, or None where they were given.
    section_plane
        Component, value and direction of the Poincare section, or None.
    work_precision
        Error against cost over several steps, by method; empty where it was not asked for.
    diagnostics
        Diagnostics that measured the methods, of the package and of the user.
    complete
        The system behind observed states, where it is known; else None.
    """

    system: System
    step: float
    every: int
    times: np.ndarray
    reference: np.ndarray
    reference_error: np.ndarray
    threshold: float
    step_table: OneStepTable
    runs: dict[str, Run]
    seed: int | None = None
    section_plane: tuple[str, float, int] | None = None
    work_precision: dict[str, Any] = field(default_factory=dict)
    diagnostics: tuple[type[Any], ...] = field(default=(), repr=False, compare=False)
    complete: System | None = None

    @property
    def complete_system(self) -> System:
        """The system behind observed states, or that of the states."""
        return self.complete or self.system

    @property
    def reference_time(self) -> float:
        """Time up to which tables and figures speak of errors.

        The reference of an orbit ends where its own error passes a tenth of the threshold. This is
        the lower median of their ends: half of the orbits, or more, are known up to it.
        """
        return float(np.sort(self.reference_ends)[(len(self.reference) - 1) // 2])

    @cached_property
    def reference_ends(self) -> np.ndarray:
        """Time at which the reference of each orbit ends, (trajectory,)."""
        count = self.reference.shape[1]
        ends = np.full(len(self.reference), count)
        if not self.is_reference_given:  # of states that were measured single ones may be missing
            ends = np.isfinite(self.reference).all(axis=-1).sum(axis=1)
        return self.times[ends - 1]

    @property
    def reference_end(self) -> int:
        """Number of the stored times up to :attr:`reference_time`."""
        return int(np.searchsorted(self.times, self.reference_time)) + 1

    def threshold_passed(self, name: str) -> float:
        """Return the median time at which a method is known to keep below the threshold.

        It is that at which half of its orbits have passed it or have lost their reference.
        """
        ends = []
        for each in self.run(name).members:
            known = np.where(
                np.isnan(each.threshold_time), self.reference_ends, each.threshold_time
            )
            ends.append(float(np.sort(known)[(len(known) - 1) // 2]))
        return float(np.median(ends))

    @property
    def is_reference_given(self) -> bool:
        """Whether the reference was given, as measured states are, and not solved for."""
        return bool(np.isnan(self.reference_error).any())

    @cached_property
    def accuracy(self) -> float:
        """Estimate of the largest distance of the reference from the solution, in any component.

        0 for a reference that is exact or was given.
        """
        error = float(np.nan_to_num(self.reference_error).max())
        largest = np.nanmax(np.abs(self.reference), axis=(0, 1), initial=0)
        sizes = bounded_sizes(self.system, largest)
        return error * float(sizes[self.system.moving].max())

    def is_compared(self, name: str) -> bool:
        """Whether the reference goes beyond the states that a method was given."""
        return self.reference_time > (self.run(name).window - 1) * self.step

    @cached_property
    def members(self) -> dict[str, Run]:
        """Runs of all models and methods by their own names, also those of models of one name."""
        return {member.name: member for run in self.runs.values() for member in run.members}

    def run(self, name: str) -> Run:
        """Return the trajectories of a method, or raise InputError with the names of all."""
        if name in self.members:
            return self.members[name]
        if name not in self.runs:
            raise InputError(f"this rollout has no method '{name}'; it has {', '.join(self.runs)}")
        return self.runs[name]

    def divergence_time(self, name: str) -> np.ndarray:
        """Return the time at which each trajectory diverged, NaN if it has not, (trajectory,).

        A trajectory diverges if a state is not finite, or its distance from the reference exceeds
        ten times the reference's extent (the largest distance of its states from their mean). It
        also diverges if an invariant changes by more than a hundred times its largest initial
        value. All steps are searched, also those that are not stored.
        """
        times: np.ndarray = self.run(name).divergence_time
        return times

    def diverged(self, name: str) -> int:
        """Return the number of trajectories of a method that have diverged, of all its models."""
        members = self.run(name).members
        return sum(int(np.isfinite(self.divergence_time(each.name)).sum()) for each in members)

    @cached_property
    def _summaries(self) -> dict[str, Summary]:
        return {}

    def summary(self, name: str) -> Summary:
        """Return the summary of a method: every number of it in tables and captions."""
        if name not in self._summaries:
            self._summaries[name] = self._summarised(self.run(name))
        return self._summaries[name]

    @np.errstate(all="ignore")  # diverged values are infinite
    def _summarised(self, run: Run) -> Summary:
        numbers: dict[str, Any] = {text: getattr(run, text) for text in _SUMMARY}
        numbers |= dict.fromkeys(("seeds", "best_seed", "worst_seed"))
        typical = next(k for k, each in enumerate(run.members) if each is run.typical)
        for diagnostic in self.diagnostics:
            values = [diagnostic.summary(each, self) for each in run.members]
            if run.seeds:
                numbers |= {
                    key: _joined(diagnostic.joins.get(key, ""), [v[key] for v in values], typical)
                    for key in values[0]
                }
            else:
                numbers |= values[0]
        if run.seeds:
            errors = [float(np.median(each.root_mean_square_error)) for each in run.seeds]
            best = min(errors)
            worst = max(errors)
            numbers |= {"seeds": len(errors), "best_seed": best, "worst_seed": worst}
        for diagnostic in self.diagnostics:
            numbers |= diagnostic.verdicts(Summary(**numbers))
        return Summary(**numbers)

    @property
    def invariant_labels(self) -> dict[str, str]:
        """Labels of the invariants in tables and figures: their names as words."""
        return {name: printable(name.replace("_", " ")) for name in self.complete_system.invariants}

    @cached_property
    def columns(self) -> list[Column]:
        """The columns of the table: those of the method, and of every diagnostic."""
        return [*_METHOD, *(column for each in self.diagnostics for column in each.columns(self))]

    def table(self) -> list[dict[str, Any]]:
        """Return a row for each method; the keys are the column titles, in order.

        ``vpintegrator.plotting.tables`` renders it for terminals, CSV, Markdown and LaTeX. "Median"
        and "worst" are over the orbits; all other errors are the largest of any orbit, up to its
        divergence. Several models of one name have the median of each number over the models, the
        largest of the worst errors, and the sum of counts; best and worst seed are their median
        RMSE. Whether something is kept is said of the number in the row.
        """
        summaries = map(self.summary, self.runs)
        return [{column.title: column.cell(s) for column in self.columns} for s in summaries]

    def values(self, title: str) -> dict[str, Any]:
        """Return the values of a column of the table by method, without those that do not exist.

        Raises
        ------
        InputError
            If the table has no such column.

        Examples
        --------
        >>> report = vp.compare(None, ["rk4", "heun"], system="pendulum", steps=50)
        >>> report.values("order")
        {'rk4': 4, 'heun': 2}
        """
        column = next((each for each in self.columns if each.title == title), None)
        if column is None:
            known = [each.title for each in self.columns]
            raise InputError(f"the table has no column '{title}'{nearest(title, known)}")
        cells = {name: column.cell(self.summary(name)) for name in self.runs}
        return {name: value for name, value in cells.items() if value is not None}

    def to_frame(self) -> pandas.DataFrame:
        """Return the table as a pandas DataFrame, a row for each method, with every digit.

        Examples
        --------
        >>> report = vp.compare(None, ["rk4", "stoermer-verlet"], system="pendulum", steps=50)
        >>> list(report.to_frame().index)
        ['RK4', 'Störmer–Verlet']
        """
        import pandas  # slow to load

        return pandas.DataFrame(self.table()).set_index("method")

    def save(self, path: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write a rollout file, from which everything can be drawn without running a method again.

        Raises
        ------
        InputError
            If the file exists and ``overwrite`` is false, or cannot be written.
        """
        with create_hdf5(path, overwrite) as f:
            write_header(f, FORMAT, FORMAT_VERSION, self.system, self.step)
            seeds = {run.name: [m.name for m in run.seeds] for run in self.runs.values()}
            attributes = {
                "title": f"Rollout: {printable(self.system.title)}",
                "methods": json.dumps(list(self.members)),
                "seeds": json.dumps({n: each for n, each in seeds.items() if each}),
                "every": self.every,
                "threshold": self.threshold,
                "step_table": self.step_table.text,
                "seed": self.seed,
                "section": self.section_plane and json.dumps(self.section_plane),
            }
            write_attributes(f, {k: value for k, value in attributes.items() if value is not None})
            if self.complete is not None:
                write_system(f.create_group(COMPLETE), self.complete)
            group = f.create_group(REFERENCE, track_order=True)
            times = self.times[: self.reference.shape[1]]
            write_states(group, self.reference, times, self.system)
            ERROR.write(group, self.reference_error)
            for name, run in self.members.items():
                group = f.create_group(name, track_order=True)
                write_attributes(group, {key: printable(getattr(run, key)) for key in TEXTS})
                write_attributes(group, {key: getattr(run, key) for key in (*WINDOWS, *EPSILONS)})
                write_attributes(group, {"structure": run.structure.text})
                write_attributes(group, {"complete": int(run.is_complete)})
                if run.order is not None:
                    write_attributes(group, {"order": run.order})
                write_states(group, run.states, self.times, self.system)
                for variable in (v for each in self.diagnostics for v in each.variables):
                    variable.write(group, getattr(run, variable.name), self.complete_system)
            for name, study in self.work_precision.items():
                group = f.create_group(f"{WORK_PRECISION}/{name}", track_order=True)
                for variable in STUDY:
                    variable.write(group, getattr(study, variable.name))

    def _repr_html_(self) -> str:
        return displayed(self, "html_of")

    def __repr__(self) -> str:
        methods = []
        for name, run in self.runs.items():
            worst = f" (worst RMSE {run.root_mean_square_error.max():.1e})"
            methods.append(f"{name}{worst if self.is_compared(name) else ''}")
        end = self.times[-1]
        errors = f", errors to t = {self.reference_time:g}" if self.reference_time < end else ""
        return (
            f"<Report {self.system.name}: {', '.join(methods)}; "
            f"{len(self.reference)} trajectories to t = {end:g}{errors}>"
        )


def _kept(summary: Summary) -> str:
    return ", ".join(filter(None, [*summary.structure.words, summary.remark]))


_METHOD = [
    Column("method", "title", "words", place=0),
    Column("kind", "kind", "hidden"),
    Column("order", "order", "words", rank=2, place=0),
    Column("structure", _kept, "words", rank=1, place=0),
    Column("provenance", "provenance", "hidden"),
    Column("seeds", "seeds", "words", rank=1.5, place=0),
    Column("attention", "attention_summary", "hidden"),
    Column("best seed", "best_seed", "error", rank=7.6, place=2),
    Column("worst seed", "worst_seed", "error", rank=7.5, place=2),
]
