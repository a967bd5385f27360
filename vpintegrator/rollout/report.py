"""Report of a comparison: states of every method, and all measurements on them."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from vpintegrator.errors import printable
from vpintegrator.rich_display import RichDisplay
from vpintegrator.rollout.diagnostics.diagnostic import Column, Diagnostic
from vpintegrator.rollout.diagnostics.invariants import ENDINGS
from vpintegrator.rollout.diagnostics.registry import DIAGNOSTICS, INVARIANTS
from vpintegrator.rollout.file_writing import write_rollout
from vpintegrator.rollout.recording import Recording
from vpintegrator.rollout.results import Results, Summary
from vpintegrator.rollout.views import dataset_of, frame_of

if TYPE_CHECKING:
    import pandas
    import xarray


@dataclass(frozen=True)
class Report(Results, RichDisplay, by="report"):
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
    runs
        The methods by name, learned ones first.
    seed
        Seed of the initial states, or None where they were given.
    section_plane
        Component, value and direction of the Poincare section, or None.
    work_precision
        Error against cost over several steps, by method; empty where it was not asked for.
    diagnostics
        Diagnostics that measured the methods, of the package and of the user.
    """

    diagnostics: tuple[Diagnostic, ...] = field(default=DIAGNOSTICS, repr=False, compare=False)
    _recording: Recording = field(default_factory=Recording, repr=False, compare=False)

    @np.errstate(all="ignore")  # diverged values are infinite
    def summary(self, name: str) -> Summary:
        """Return the summary of a method."""
        run = self.run(name)
        texts = ("name", "title", "kind", "order", "structure")
        numbers = {text: getattr(run, text) for text in texts}
        for diagnostic in self.diagnostics:
            numbers |= diagnostic.summary(run, self)
        return Summary(**numbers)

    @cached_property
    def invariant_labels(self) -> dict[str, str]:
        """Labels of the invariants in the columns of the table: their names as words.

        The prefix ``invariant`` distinguishes a label from another column of the same name.
        """
        others = (each for each in self.diagnostics if each is not INVARIANTS)
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
        and "worst" are over the orbits; all other errors are the largest of any orbit.
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
        return frame_of(self.table()).set_index("method")

    def to_xarray(self) -> xarray.Dataset:
        """Return all data at the stored times as an xarray Dataset, with labels.

        ``state`` (run, trajectory, time, component), ``reference`` (trajectory, time, component)
        and ``error`` (run, trajectory, time), NaN beyond the end of the reference, and
        ``invariant_NAME`` (run, trajectory, time) for each invariant.

        Examples
        --------
        >>> report = vp.compare(None, ["rk4"], system="pendulum", steps=50)
        >>> report.to_xarray().state.sel(run="rk4", component="p").dims
        ('trajectory', 'time')
        """
        return dataset_of(self)

    def save(self, path: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write a rollout file, from which everything can be drawn without running a method again.

        A checkpoint stays; see :meth:`discard_checkpoint`.

        Raises
        ------
        InputError
            If the file exists and ``overwrite`` is false, or cannot be written.
        """
        write_rollout(self, self.diagnostics, path, overwrite)

    def discard_checkpoint(self) -> None:
        """Delete the checkpoint of the comparison, if there is one. The report holds all its data.

        No other comparison can use the folder before.
        """
        self._recording.remove()

    def __repr__(self) -> str:
        methods = []
        for name, run in self.runs.items():
            worst = f" (worst RMSE {run.root_mean_square_error.max():.1e})"
            methods.append(f"{name}{worst if self.is_compared(name) else ''}")
        return (
            f"<Report {self.system.name}: {', '.join(methods)}; "
            f"{len(self.reference)} trajectories to t = {self.times[-1]:g}>"
        )


_METHOD = [
    Column("method", lambda s: s.title, "words", place=0),
    Column("kind", lambda s: s.kind, "hidden"),
    Column("order", lambda s: s.order, "words", rank=2, place=0),
    Column("structure", lambda s: ", ".join(s.structure), "words", rank=1, place=0),
]
