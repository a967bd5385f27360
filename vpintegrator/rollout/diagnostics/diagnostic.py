"""Base class of diagnostics: observers, measurements, storage and summary.

The rollout, the rollout file, summaries, tables in all formats and JSON loop over the diagnostics
of a report. The package's diagnostics are in ``registry.py``; ``vp.compare(diagnostics=...)`` takes
further ones. A new diagnostic of the package needs a file in this folder, an instance in the
registry, and a test.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from vpintegrator.dynamics import System
from vpintegrator.rollout.comparison import Ensemble
from vpintegrator.rollout.observer import Observer
from vpintegrator.rollout.results import Results, Run, Summary
from vpintegrator.rollout.variables import Variable, read_variables
from vpintegrator.storage.reading import StoredGroup


@dataclass(frozen=True)
class Column:
    """A column of the table.

    Attributes
    ----------
    title
        The key in the rows of :meth:`Report.table`, and the title in CSV and JSON.
    value
        Its value for a method: a number, word, truth value, or None.
    style
        Format in printed tables: ``"number"``; ``"error"``, one of trajectories, which is not known
        below the accuracy of the reference; ``"words"``; ``"count"`` of the orbits; ``"short"``,
        a number of three digits; ``"duration"``; ``"drift"``, a number with its sign if nothing
        diverged; ``"failure"``, a time that may not be reached; ``"kept"``, an error behind the
        value of ``beside``; ``"hidden"`` for CSV and JSON alone.
    header
        Its title in two lines, by default split before the last word.
    rank
        Order in which a printed table that is too wide drops columns; a column with None is never
        dropped.
    place
        Printed tables are ordered by this first, and then as the diagnostics are.
    beside
        Title of a further column that is printed in the same cell.
    promised
        Properties of methods that exclude a defect in this column. If a method has one of them and
        yet a defect, the column is always printed.
    """

    title: str
    value: Callable[[Summary], Any]
    style: str = "number"
    header: tuple[str, str] | None = None
    rank: float | None = None
    place: int = 4
    beside: str = ""
    promised: tuple[str, ...] = ()


class Diagnostic(ABC):
    """Diagnostic of a comparison, with its observers, measurements, storage and summary.

    Attributes
    ----------
    variables
        Measurements that are arrays or numbers, and are stored as they are. For other measurements,
        override :meth:`stored` and :meth:`read`.

    Examples
    --------
    >>> from vpintegrator.rollout.diagnostics import Column, Diagnostic, Variable
    >>> class Extent(Diagnostic):
    ...     variables = (Variable("extent", "largest component", ("trajectory",)),)
    ...     def measure(self, ensemble):
    ...         return {"extent": np.abs(ensemble.states).max((1, 2))}
    ...     def summary(self, run, report):
    ...         return {"extent": float(run.extent.max())}
    ...     def columns(self, report):
    ...         return [Column("extent", lambda summary: summary.extent, "short")]
    >>> report = vp.compare(None, "rk4", system="pendulum", steps=20, diagnostics=[Extent()])
    >>> bool(report.table()[0]["extent"] == report.runs["rk4"].extent.max())
    True
    """

    variables: tuple[Variable, ...] = ()

    def series(self, system: System) -> Sequence[str]:
        """Return the names of arrays (time, trajectory) that its observers fill."""
        return ()

    def observers(self, ensemble: Ensemble) -> dict[str, Observer]:
        """Return the observers that must see every step, by name."""
        return {}

    @abstractmethod
    def measure(self, ensemble: Ensemble) -> dict[str, Any]:
        """Return measurements by name after all steps, None for those that are not possible.

        The names are the same for every method.
        """

    def stored(self, run: Run) -> Iterator[Variable]:
        """Return the measurements of a run for the rollout file."""
        for variable in self.variables:
            values = getattr(run, variable.name)
            if values is not None:
                yield replace(variable, values=values)

    def read(self, group: StoredGroup, system: System, sizes: Mapping[str, int]) -> dict[str, Any]:
        """Return the measurements in a method's group, None for missing ones.

        ``sizes`` are those of the axes ``trajectory``, ``time`` and ``component``.

        Raises
        ------
        InputError
            If they are damaged or do not fit.
        """
        return read_variables(group, self.variables, sizes)

    def summary(self, run: Run, report: Results) -> dict[str, Any]:
        """Return single numbers of a method by name: attributes of its :class:`Summary`."""
        return {}

    def columns(self, report: Results) -> Sequence[Column]:
        """Return the columns of the table."""
        return ()


class Number(Diagnostic):
    """A diagnostic that gives one number for a method, which is also a column of the table.

    Parameters
    ----------
    variable
        The number.
    measured
        Function that returns the number; None if the number is not defined.
    column
        Its column but for the value.
    """

    def __init__(
        self,
        variable: Variable,
        measured: Callable[[Ensemble], float | None],
        title: str,
        **column: Any,
    ) -> None:
        self.variables, self._measured = (variable,), measured
        self._name = variable.name
        self._column = Column(title, lambda summary: getattr(summary, self._name), **column)

    def measure(self, ensemble: Ensemble) -> dict[str, Any]:
        return {self._name: self._measured(ensemble)}

    def summary(self, run: Run, report: Results) -> dict[str, Any]:
        return {self._name: getattr(run, self._name)}

    def columns(self, report: Results) -> Sequence[Column]:
        return (self._column,)
