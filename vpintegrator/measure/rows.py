"""Rows of the table of one step: error and cost of maps, and methods with the error of a model."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from operator import attrgetter
from typing import Any

from vpintegrator.errors import InputError
from vpintegrator.rich_display import duration
from vpintegrator.storage.reading import read_json

ALIKE = 1.3  # factor below which two costs are about the same: that of repeated measurements


@dataclass(frozen=True)
class Rival:
    """A classical method with the fewest substeps whose error is at most that of a model.

    Attributes
    ----------
    name, substeps
        Name of the method and number of substeps, None where the error is not reached.
    cost
        Seconds for a step of one of 1,000 states; nan where it was not measured.
    reason
        Why the error is not reached.
    """

    name: str
    substeps: int | None = None
    cost: float = math.nan
    reason: str = ""

    @property
    def words(self) -> str:
        """Name and substeps."""
        return f"{self.name} with {_substeps(self.substeps)}"


@dataclass(frozen=True)
class OneStep:
    """Error and cost of one step of a map.

    Attributes
    ----------
    name, kind
        Name of the map, and ``model`` or ``classical``.
    error
        Root mean square error one step ahead, relative to the spread of the components that move;
        infinite if the map overflows.
    cost
        Seconds for a step of one of 1,000 states; nan where it was not measured.
    note
        Reason why the cost is none of machine code; empty if it is one.
    rivals
        Of a model: the classical methods in machine code with its error.
    lead_time_errors
        Of a map that predicts several states in a call: the errors 1, 2, ... steps ahead.
    """

    name: str
    kind: str
    error: float = math.inf
    cost: float = math.nan
    note: str = ""
    rivals: tuple[Rival, ...] = ()
    lead_time_errors: tuple[float, ...] = ()

    @property
    def cheapest_rival(self) -> Rival | None:
        """The cheapest classical method with the error of a model, None where none is compared.

        Maps that do not run as machine code are not compared, nor costs that were not measured.
        """
        known = [rival for rival in self.rivals if math.isfinite(rival.cost)]
        is_compared = not self.note and math.isfinite(self.cost)
        return min(known, key=attrgetter("cost"), default=None) if is_compared else None

    @property
    def relative_cost(self) -> float:
        """Cost of this method, relative to that of the model; nan without one."""
        return self.cheapest_rival.cost / self.cost if self.cheapest_rival else math.nan


@dataclass(frozen=True)
class OneStepTable:
    """Errors and costs of one step: models in the order given, then methods by their error.

    Attributes
    ----------
    rows
        The maps.
    """

    rows: tuple[OneStep, ...]

    @property
    def models(self) -> list[OneStep]:
        """Rows of the models."""
        return [row for row in self.rows if row.kind == "model"]

    @property
    def methods(self) -> list[OneStep]:
        """Rows of the classical methods, the most accurate one first."""
        return [row for row in self.rows if row.kind == "classical"]

    def cheapest(self, target: float) -> OneStep:
        """Return the cheapest map of those that err by at most ``target``.

        Maps of unknown cost come last; where none is below the target, the least error counts.
        """
        best = min(self.rows, key=attrgetter("error"))
        below = [row for row in self.rows if row.error <= target] or [best]
        return min(below, key=lambda row: (math.isnan(row.cost), row.cost, row.error))

    def joined(self, other: OneStepTable) -> OneStepTable:
        """Return the table with the rows of another one below."""
        return OneStepTable((*self.rows, *other.rows))

    def row(self, name: str) -> OneStep:
        """Return the row of a map; one without numbers where the map was not measured."""
        return next((row for row in self.rows if row.name == name), OneStep(name, ""))

    @property
    def sentences(self) -> list[str]:
        """Comparison of each model with the cheapest classical method of its error."""
        return [self.sentence_of(model) for model in self.models if model.rivals]

    @property
    def sentence(self) -> str:
        """The sentence of the first model; empty without classical methods."""
        return next(iter(self.sentences), "")

    def sentence_of(self, model: OneStep, rounding: float = 1e-14) -> str:
        """Return the comparison of a model with the cheapest classical method of its error.

        Parameters
        ----------
        model
            A row of the table.
        rounding
            Error below which methods need not come.
        """
        below = "this error" if model.error > rounding else "an error at rounding"
        rival = model.cheapest_rival
        ratio = model.relative_cost
        if rival is not None:
            cost = f"{two_digits(ratio)} times the cost"
            cost = "about the same cost" if 1 / ALIKE < ratio < ALIKE else cost
            verdict = f"The cheapest classical method with {below} is {rival.words}, at {cost}"
        elif model.note or math.isnan(model.cost):
            verdict = f"Its cost is not compared: {model.note or 'not measured in time'}"
        elif any(rival.substeps for rival in model.rivals):
            verdict = f"No cost of a classical method with {below} was measured in time"
        else:
            verdict = f"No classical method of the table reaches {below}"
        later = model.lead_time_errors
        ahead = f", and by up to {max(later):.1e} to {len(later)} steps ahead" if later else ""
        return f"{model.name} errs by {model.error:.1e} one step ahead{ahead}. {verdict}."

    def __str__(self) -> str:
        first = self.models[0] if self.models and self.methods else None
        rivals = {rival.name: rival for rival in first.rivals} if first else {}
        header = [f"as accurate as {first.name}", "cost then"] if first else []
        cells = [["one step ahead", "error", "cost", *header, ""]]
        for row in self.rows:
            rival = rivals.get(row.name)
            then = ["", ""]
            if rival is not None:
                then = ["not reached", ""]
                if rival.substeps is not None:
                    then = [_substeps(rival.substeps), _cost(rival.cost)]
            note = "; ".join(filter(None, [row.note, rival.reason if rival else ""]))
            numbers = [f"{row.error:.1e}", _cost(row.cost), *(then if first else ())]
            cells.append([row.name, *numbers, note])
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = []
        for name, *numbers, note in cells:
            aligned = map(str.rjust, numbers, widths[1:-1])
            lines.append("  ".join([name.ljust(widths[0]), *aligned, note]).rstrip())
        return "\n".join([*lines, *self.sentences])

    @property
    def values(self) -> tuple[dict[str, Any], ...]:
        """The rows as dictionaries for a file, without numbers that are not finite."""
        return tuple(_known(asdict(row)) for row in self.rows)

    @property
    def text(self) -> str:
        """JSON text of the rows."""
        return json.dumps({"rows": self.values})

    @classmethod
    def of_values(cls, values: Iterable[Mapping[str, Any]], where: str) -> OneStepTable:
        """Return the table of rows as dictionaries; ``where`` is their place for messages.

        Raises
        ------
        InputError
            If they are no such rows.
        """
        try:
            rows = []
            for row in map(dict, values):
                rivals = tuple(Rival(**rival) for rival in row.pop("rivals", ()))
                errors = tuple(map(float, row.pop("lead_time_errors", ())))
                rows.append(OneStep(**row, rivals=rivals, lead_time_errors=errors))
            str(table := cls(tuple(rows)))  # numbers can be written as numbers
        except (AttributeError, KeyError, TypeError, ValueError):
            raise InputError(f"{where} is not what a training writes") from None
        return table

    @classmethod
    def from_text(cls, text: str, where: str) -> OneStepTable:
        """Return the table of a ``text``; ``where`` is its place for messages.

        Raises
        ------
        InputError
            If it is no such text.
        """
        rows = read_json(text, where).get("rows")
        if not isinstance(rows, list):
            raise InputError(f"{where} is not what a training writes")
        return cls.of_values(rows, where)


def _substeps(count: int | None) -> str:
    return f"{count} substep{'s' if count != 1 else ''}"


def _cost(seconds: float) -> str:
    return "-" if math.isnan(seconds) else duration(float(f"{seconds:.2g}"))


def two_digits(number: float) -> str:
    """Return a positive number with two significant digits, such as 0.34, 1.0 and 120."""
    if not 1e-3 < number < 1e4:
        return f"{number:.1e}"
    digits = max(1 - math.floor(math.log10(number)), 0)
    return f"{float(f'{number:.1e}'):.{digits}f}"


def _known(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that JSON can hold: no number that is not finite, and no empty text."""
    values = dict(row)
    if "rivals" in values:
        values["rivals"] = [*map(_known, values["rivals"])]
    unknown = ("", None, (), math.inf)
    if not all(map(math.isfinite, values.get("lead_time_errors", ()))):
        values["lead_time_errors"] = ()
    return {k: v for k, v in values.items() if v not in unknown and v == v}  # nor nan
