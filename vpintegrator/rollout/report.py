"""Report of a comparison: states of every method, all measurements on them, and its file.

Rollout files are HDF5 files that xarray, netCDF tools and h5py open. Group ``reference`` and one
group for each method hold ``state (trajectory, time, component)`` at the stored times with their
coordinates. A method's group also holds the measurements of its diagnostics: arrays, and single
numbers in its attributes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

from vpintegrator.arguments import as_path
from vpintegrator.compiled.one_step import OneStepTable
from vpintegrator.dynamics import Structure, System
from vpintegrator.dynamics.state_file import read_system, write_header, write_states
from vpintegrator.errors import InputError, printable
from vpintegrator.maps.map import KINDS
from vpintegrator.rich_display import displayed
from vpintegrator.rollout.diagnostics import WorkPrecision
from vpintegrator.rollout.diagnostics.diagnostic import Column, Diagnostic
from vpintegrator.rollout.diagnostics.invariants import ENDINGS
from vpintegrator.rollout.diagnostics.registry import DIAGNOSTICS, Invariants
from vpintegrator.rollout.results import (
    REFERENCE,
    RESERVED,
    WORK_PRECISION,
    Results,
    Run,
    Summary,
    by_name,
    summary_of_seeds,
)
from vpintegrator.rollout.variables import TRAJECTORY, Variable, read_variables
from vpintegrator.storage.hdf5 import create_hdf5
from vpintegrator.storage.reading import StoredGroup, open_hdf5

if TYPE_CHECKING:
    import pandas

FORMAT = "vpintegrator-rollout"
FORMAT_VERSION = 3
_COST = "and trajectory, for a unit of simulated time"
_STUDY = (
    Variable("step", "time step", ("step",), required=True),
    Variable("seconds", f"seconds {_COST}", ("step",), required=True),
    Variable("evaluations", f"vector field evaluations {_COST}", ("step",), required=True),
    Variable("jacobian_evaluations", f"Jacobian evaluations {_COST}", ("step",)),
    Variable("error", "root mean square error at the end", ("step",), required=True),
    Variable("order", "order of accuracy"),
)


def with_own(own: Iterable[Any]) -> tuple[type[Diagnostic], ...]:
    """Return all diagnostics of the package, and further ones.

    Raises
    ------
    InputError
        If one is no diagnostic, or a measurement has a name that another one has.
    """
    found = [*DIAGNOSTICS]
    for diagnostic in own:
        if not (isinstance(diagnostic, type) and issubclass(diagnostic, Diagnostic)):
            raise InputError(f"diagnostics must be subclasses of Diagnostic, not {diagnostic!r}")
        taken = {variable.name for each in found for variable in each.variables}
        for variable in diagnostic.variables:
            if variable.name in taken:
                raise InputError(
                    f"diagnostics: {diagnostic.__name__} measures {variable.name}, and so does "
                    "another diagnostic; take another name"
                )
        found.append(diagnostic)
    return tuple(found)


def write_rollout(
    report: Results,
    diagnostics: Sequence[type[Diagnostic]],
    path: str | os.PathLike[str],
    overwrite: bool = False,
) -> None:
    """Write a report with the measurements of its diagnostics; see :meth:`Report.save`."""
    with create_hdf5(path, overwrite) as f:
        write_header(f, FORMAT, FORMAT_VERSION, report.system, report.step)
        f.attrs["title"] = f"Rollout: {printable(report.system.title)}"
        f.attrs["methods"] = json.dumps(list(report.members))
        seeds = {
            n: [each.name for each in run.seeds] for n, run in report.runs.items() if run.seeds
        }
        if seeds:
            f.attrs["seeds"] = json.dumps(seeds)
        f.attrs["every"] = report.every
        f.attrs["threshold"] = report.threshold
        f.attrs["step_table"] = report.step_table.text
        if report.seed is not None:
            f.attrs["seed"] = report.seed
        if report.section_plane is not None:
            f.attrs["section"] = json.dumps(report.section_plane)
        group = f.create_group(REFERENCE, track_order=True)
        times = report.times[: report.reference.shape[1]]
        write_states(group, report.reference, times, report.system)
        title, error = "estimate of the largest error in any component", report.reference_error
        Variable("estimated_error", title, TRAJECTORY, values=error).write(group)
        for name, run in report.members.items():
            group = f.create_group(name, track_order=True)
            _write_method(group, run)
            write_states(group, run.states, report.times, report.system)
            for diagnostic in diagnostics:
                for variable in diagnostic.stored(run):
                    variable.write(group)
        if report.work_precision:
            parent = f.create_group(WORK_PRECISION, track_order=True)
            for name, study in report.work_precision.items():
                group = parent.create_group(name, track_order=True)
                for variable in _STUDY:
                    if (values := getattr(study, variable.name)) is not None:
                        replace(variable, values=values).write(group)


def _write_method(group: h5py.Group, run: Run) -> None:
    for key in ("kind", "method", "title", "description", "remark"):
        group.attrs[key] = printable(getattr(run, key))
    for key in ("window", "prediction_window"):
        group.attrs[key] = getattr(run, key)
    group.attrs["structure"] = run.structure.text
    if run.order is not None:
        group.attrs["order"] = run.order


@dataclass(frozen=True)
class Report(Results):
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
    """

    diagnostics: tuple[type[Diagnostic], ...] = field(
        default=DIAGNOSTICS, repr=False, compare=False
    )

    @np.errstate(all="ignore")  # diverged values are infinite
    def summary(self, name: str) -> Summary:
        """Return the summary of a method."""
        run = self.run(name)
        if run.seeds:
            return summary_of_seeds(run, [self.summary(each.name) for each in run.seeds])
        texts = ("name", "title", "kind", "order", "structure", "remark")
        numbers = {text: getattr(run, text) for text in texts}
        for diagnostic in self.diagnostics:
            numbers |= diagnostic.summary(run, self)
        return Summary(**numbers, seeds=None, best_seed=None, worst_seed=None)

    @cached_property
    def invariant_labels(self) -> dict[str, str]:
        """Labels of the invariants in the columns of the table: their names as words.

        The prefix ``invariant`` distinguishes a label from another column of the same name.
        """
        others = (each for each in self.diagnostics if each is not Invariants)
        columns = [*_METHOD, *(column for other in others for column in other.columns(self))]
        taken = {column.title for column in columns}
        labels: dict[str, str] = {}
        for name in self.system.invariants:
            label = printable(name.replace("_", " ")).strip() or "invariant"
            while taken & {f"{label} {ending}" for ending in ENDINGS}:
                label = f"invariant {label}"
            labels[name] = label
            taken |= {f"{label} {ending}" for ending in ENDINGS}
        return labels

    @cached_property
    def columns(self) -> list[Column]:
        """The columns of the table: those of the method, and of every diagnostic."""
        return [*_METHOD, *(column for each in self.diagnostics for column in each.columns(self))]

    def table(self) -> list[dict[str, Any]]:
        """Return a row for each method; the keys are the column titles, in order, no two alike.

        ``vpintegrator.plotting.tables`` renders it for terminals, CSV, Markdown and LaTeX. "Median"
        and "worst" are over the orbits; all other errors are the largest of any orbit. Several
        models of one name have the median of each number over the models, the largest of the
        worst errors, and the sum of counts; best and worst seed are their median RMSE.
        """
        summaries = map(self.summary, self.runs)
        return [{column.title: column.value(s) for column in self.columns} for s in summaries]

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
        write_rollout(self, self.diagnostics, path, overwrite)

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
    Column("method", lambda s: s.title, "words", place=0),
    Column("kind", lambda s: s.kind, "hidden"),
    Column("order", lambda s: s.order, "words", rank=2, place=0),
    Column("structure", _kept, "words", rank=1, place=0),
    Column("seeds", lambda s: s.seeds, "words", place=0),
    Column("best seed", lambda s: s.best_seed, place=2),
    Column("worst seed", lambda s: s.worst_seed, place=2),
]

_LARGEST = 1e300  # value of a component
_COORDINATES = {"state", "trajectory", "time", "component", "unit"}


def open_rollout(
    path: str | os.PathLike[str], diagnostics: Sequence[type[Diagnostic]] = ()
) -> Report:
    """Read a rollout file.

    Parameters
    ----------
    path
        The HDF5 file, which vp-rollout or ``Report.save`` wrote.
    diagnostics
        Own diagnostics of the comparison. Without them the names of their measurements are in
        ``unknown`` of each run.

    Raises
    ------
    InputError
        If there is no such file, or it is not a rollout, or damaged: something in it is missing,
        of another kind, or does not fit the rest.

    Examples
    --------
    >>> report = vp.compare(None, "rk4", system="pendulum", step=0.1, steps=5)
    >>> report.save("pendulum-rollout.h5", overwrite=True)
    >>> vp.open_rollout("pendulum-rollout.h5").runs.keys()
    dict_keys(['rk4'])
    """
    path, known_here = as_path("path", path), with_own(diagnostics)
    with open_hdf5(path, FORMAT, FORMAT_VERSION) as root:
        system = read_system(root, path)
        methods = _read_methods(root, path)
        times = _read_times(root.group(methods[0]), path)
        reference = root.group(REFERENCE)
        states = reference.array("state", (None, None, system.dim))
        trajectories, known = states.shape[:2]
        if not trajectories or not 1 <= known <= len(times):
            raise InputError(
                f"{path}: a reference of {trajectories} trajectories at {known} times does not fit "
                f"methods of {len(times)} times"
            )
        sizes = {"trajectory": trajectories, "time": len(times), "component": system.dim}
        return Report(
            system=system,
            step=root.number("step", positive=True),
            every=root.whole("every", least=1),
            times=times,
            reference=states,
            reference_error=reference.array("estimated_error", (trajectories,)),
            threshold=root.number("threshold", finite=False),
            step_table=_read_step_table(root, methods, path),
            runs=by_name(
                {
                    name: _read_run(name, root.group(name), system, sizes, known_here)
                    for name in methods
                },
                seeds := _read_seeds(root, methods, path),
            ),
            seed=root.whole("seed", None),
            section_plane=_read_plane(root, system, path),
            work_precision=_read_studies(root, [*methods, *seeds]),
            diagnostics=known_here,
        )


def _read_methods(root: StoredGroup, path: Path) -> list[str]:
    methods = root.json("methods", list)
    known = set(root.groups) - {*RESERVED}
    if not methods or not all(isinstance(name, str) and name in known for name in methods):
        raise InputError(f"{path}: the attribute 'methods' must name groups of the file")
    if len(set(methods)) < len(methods):
        raise InputError(f"{path}: the attribute 'methods' names a group twice")
    return list(methods)


def _read_step_table(root: StoredGroup, methods: Sequence[str], path: Path) -> OneStepTable:
    """Return the table of a step, which has a row for each method, and for others."""
    table = OneStepTable.from_text(root.text("step_table"), f"{path}: the attribute 'step_table'")
    if not {*methods} <= {row.name for row in table.rows}:
        raise InputError(f"{path}: the attribute 'step_table' must have a row for each method")
    return table


def _read_seeds(root: StoredGroup, methods: Sequence[str], path: Path) -> dict[str, list[str]]:
    """Return the names of the groups of each name that several models share."""
    seeds: dict[str, list[str]] = root.json("seeds", dict, {})
    lists = [names for names in seeds.values() if isinstance(names, list) and names]
    named = [name for names in lists for name in names if isinstance(name, str)]
    sound = len(lists) == len(seeds) and len(named) == sum(map(len, lists))
    unique = len({*named, *seeds}) == len(named) + len(seeds) and not {*seeds} & {*methods}
    if not sound or not unique or not {*named} <= {*methods}:
        raise InputError(f"{path}: the attribute 'seeds' must name groups of the file, each once")
    return seeds


def _read_times(group: StoredGroup, path: Path) -> np.ndarray:
    times = group.array("time", (None,))
    if not len(times) or not np.isfinite(times).all() or (np.diff(times) <= 0).any():
        raise InputError(f"{path}: the times must be numbers that increase")
    return times


def _read_plane(root: StoredGroup, system: System, path: Path) -> tuple[str, float, int] | None:
    plane = root.json("section", list, None)
    if plane is None:
        return None
    if (
        len(plane) != 3
        or plane[0] not in system.components
        or not isinstance(plane[1], int | float)
        or not -_LARGEST < plane[1] < _LARGEST
        or plane[2] not in (-1, 0, 1)
    ):
        raise InputError(
            f"{path}: the attribute 'section' must be a component, its value and a direction"
        )
    return plane[0], float(plane[1]), int(plane[2])


def _read_run(
    name: str,
    group: StoredGroup,
    system: System,
    sizes: Mapping[str, int],
    diagnostics: Sequence[type[Diagnostic]],
) -> Run:
    """Read a method's group, with the names of measurements that no diagnostic knows."""
    kind = group.text("kind")
    if kind not in KINDS:
        raise InputError(f"{group}: the attribute 'kind' must be one of {', '.join(KINDS)}")
    measurements: dict[str, Any] = {}
    for diagnostic in diagnostics:
        measurements |= diagnostic.read(group, system, sizes)
    run = Run(
        name=name,
        kind=kind,
        method=group.text("method"),
        title=group.text("title"),
        description=group.text("description"),
        order=group.whole("order", None),
        structure=Structure.from_text(
            group.text("structure"), f"{group}: the attribute 'structure'"
        ),
        remark=group.text("remark", ""),
        window=group.whole("window", least=1),
        prediction_window=group.whole("prediction_window", least=1),
        states=group.array("state", tuple(sizes.values())),
        measurements=measurements,
    )
    known = {variable.key for each in diagnostics for variable in each.stored(run)}
    unknown = set(group.names) - known - _COORDINATES
    return replace(run, unknown=tuple(map(printable, sorted(unknown))))


def _read_studies(root: StoredGroup, methods: Sequence[str]) -> dict[str, WorkPrecision]:
    if WORK_PRECISION not in root:
        return {}
    parent = root.group(WORK_PRECISION)
    unknown = set(parent.groups) - {*methods}
    if unknown:
        raise InputError(f"{parent}: '{printable(min(unknown))}' is none of the methods")
    return {name: _read_study(parent.group(name)) for name in parent.groups}


def _read_study(group: StoredGroup) -> WorkPrecision:
    steps = len(group.array("step", (None,)))
    if not steps:
        raise InputError(f"{group}: there are no steps")
    return WorkPrecision(**read_variables(group, _STUDY, {"step": steps}))
