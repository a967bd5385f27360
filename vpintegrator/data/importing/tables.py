"""Trajectories in text files: a row of numbers for each state, with a header or without."""

from __future__ import annotations

import csv
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from vpintegrator.data.importing.arrays import TIMES, TRAJECTORIES, Arrays, padded
from vpintegrator.data.importing.cells import Numbers, plain_name, read_date
from vpintegrator.data.importing.layout import Layout, find_layout
from vpintegrator.data.importing.text_files import open_text
from vpintegrator.errors import InputError, nearest

_ROOM = 1000  # states of room for each that is there: one trajectory may be far longer than others
_SMALL = 1_000_000  # states that nobody minds
_LIKE_STEP = 0.1  # allowed relative difference of a time column from the given step


def read_table(
    path: Path,
    variable: str | None,
    decimal: str | None = None,
    columns: Sequence[str] | Mapping[str, str] | None = None,
    step: float | None = None,
    parameters: Sequence[str] = (),
) -> Arrays:
    """Columns: components, and if there are any, time, trajectory and parameters.

    Rows of one trajectory may stand anywhere, and are put in the order of their times.

    Parameters
    ----------
    path
        A text file, packed by gzip or not.
    variable
        The columns that are the components, with commas between; all numbers by default.
    decimal
        The decimal mark, found out by default.
    columns
        Names of the columns of a file without a header, or new names of columns of a header.
    step
        Step, if known. Without a header, a first column with other steps is then no time.
    parameters
        The columns that are parameters.

    Raises
    ------
    InputError
        If the file is damaged or no table, in a sentence that says where.
    """
    guessed: list[str] = []
    numbers = Numbers(decimal)
    with open_text(path, guessed) as file:
        try:
            layout = find_layout(file, str(path), columns)
            roles = _Roles(layout, variable, parameters, str(path))
            table = _read_rows(layout, roles, numbers, str(path))
        except csv.Error as error:
            raise InputError(f"{path} cannot be read as a table: {error}") from None
    if not len(table):
        raise InputError(f"{path} holds no rows of numbers")
    if decimal is None and numbers.decimal == ",":
        guessed.append("the comma is the decimal mark (--decimal says which one is)")
    roles.settle(table, step, guessed)
    return _arrange(table, layout, roles, str(path), guessed)


class _Roles:
    """Roles of columns: components, time, trajectory, parameters, or left out."""

    def __init__(
        self, layout: Layout, variable: str | None, parameters: Sequence[str], where: str
    ) -> None:
        names, kinds = layout.names, layout.kinds
        self.parameters = [self._find(layout, name, where) for name in parameters]
        plain = [plain_name(name).lower() for name in names]
        self.time = next((k for k, name in enumerate(plain) if name in TIMES), None)
        if self.time is None:
            self.time = next((k for k, kind in enumerate(kinds) if kind == "date"), None)
        self.trajectory = next((k for k, name in enumerate(plain) if name in TRAJECTORIES), None)
        self._layout, self._asked = layout, variable is not None
        self.columns: list[int] = []
        self.left_out: list[int] = []
        if variable is None:
            for k, kind in enumerate(kinds):
                if k in (self.time, self.trajectory, *self.parameters):
                    continue
                nothing = kind == "empty" and not names[k]
                (self.left_out if kind in ("text", "date") or nothing else self.columns).append(k)
            if not self.columns:
                shown = f", only {', '.join(filter(None, names)) or 'dates'}"
                if self.left_out:
                    k = self.left_out[0]
                    shown = f": column {names[k] or k + 1} holds text such as '{layout.first[k]}'"
                raise InputError(f"{where} has no column for the states{shown}")
        else:
            wanted = (part.strip() for part in variable.split(","))
            self.columns += [self._find(layout, name, where) for name in wanted]
            if self.time in self.columns:
                self.time = None
        keys = (self.time, self.trajectory)
        kept = (*self.columns, *self.parameters)
        self.used = sorted({*kept, *(k for k in keys if k is not None)})

    @staticmethod
    def _find(layout: Layout, name: str, where: str) -> int:
        """Return the column of a name."""
        named = any(layout.names)
        known = layout.names if named else [f"z{k + 1}" for k in range(len(layout.names))]
        found = [k for k, other in enumerate(known) if name in (other, plain_name(other))]
        bare = plain_name(name)
        found = found or [k for k, other in enumerate(known) if bare and bare == other]
        if not found:
            hint = nearest(name, known) or f" (it has: {', '.join(known)})"
            raise InputError(f"{where} has no column '{name}'{hint}")
        return found[0]

    def settle(self, table: np.ndarray, step: float | None, guessed: list[str]) -> None:
        """Decide what the numbers tell: time without a name, and a column that counts rows."""
        layout = self._layout
        text = [layout.names[k] or f"number {k + 1}" for k in self.left_out if self._shown(k)]
        if text:
            guessed.append(f"left out as text: {', '.join(text)}")
        if self._asked:
            return
        first = self.columns[0]
        values = table[:, self.used.index(first)]
        steps = np.diff(values)
        if not layout.has_header and not any(layout.names):
            like = step is None or abs(float(np.median(steps)) - step) < _LIKE_STEP * step
            possible = self.time is None and first == 0 and len(self.columns) > 1
            if possible and like and len(steps) > 1 and (steps > 0).all():
                self.time = first
                self.columns.remove(first)
                guessed.append(
                    "there is no header; the first column, which increases, is the time "
                    "(--columns names all of them)"
                )
                return
            guessed.append(
                f"there is no header; the components are z1 to z{len(self.columns)}, and no column "
                "is the time (--columns names them)"
            )
        elif not layout.names[first] and len(self.columns) > 1:
            counted = np.arange(len(values))
            if np.array_equal(values - values[0], counted) and values[0] in (0, 1):
                self.columns.remove(first)
                guessed.append("left out, as it counts the rows: the first column, without a name")

    def _shown(self, column: int) -> bool:
        return self._layout.kinds[column] != "empty"


def _read_rows(layout: Layout, roles: _Roles, numbers: Numbers, where: str) -> np.ndarray:
    """Return the cells of the columns used, (row, column) in their order."""
    names = [name or f"number {k + 1}" for k, name in enumerate(layout.names)]
    labels: dict[str, int] = {}
    values = array("d")
    count = len(names)
    dated = roles.time if roles.time is not None and layout.kinds[roles.time] != "number" else None
    for line, row in layout.rows:
        if len(row) == count + 1 and not row[-1]:  # a separator behind the last cell
            row.pop()
        if len(row) != count:
            expected = (
                f"the header names {count} columns"
                if layout.has_header
                else f"the first row has {count}"
            )
            advice = (
                "; where the comma is the decimal mark, columns need another separator"
                if layout.separator == "," and len(row) > count
                else ""
            )
            raise InputError(f"{where}, line {line}: {len(row)} values, but {expected}{advice}")
        for k in roles.used:
            text = row[k]
            if k == roles.trajectory:  # names of trajectories may be words
                values.append(labels.setdefault(text, len(labels)))
            elif k == dated:
                values.append(read_date(text, f"{where}, line {line}, column {names[k]}"))
            else:
                values.append(numbers.read(text, f"{where}, line {line}, column {names[k]}"))
    return np.frombuffer(values, dtype=np.float64).reshape(-1, len(roles.used))


def _arrange(
    table: np.ndarray, layout: Layout, roles: _Roles, where: str, guessed: list[str]
) -> Arrays:
    """Return rows as trajectories, each in the order of its times."""
    place = {column: k for k, column in enumerate(roles.used)}
    chosen, held = ([place[k] for k in part] for part in (roles.columns, roles.parameters))
    names = tuple(layout.names[k] or f"z{number + 1}" for number, k in enumerate(roles.columns))
    units = [layout.units[k] for k in roles.columns]
    found = [np.arange(len(table))]
    if roles.trajectory is not None:
        found = _by_trajectory(table[:, place[roles.trajectory]])
    lengths = np.array([len(rows) for rows in found])
    room = int(lengths.max()) * len(found)
    if room > _SMALL + _ROOM * len(table):
        raise InputError(
            f"{where}: {len(found):,} trajectories, of which the longest has {lengths.max():,} "
            "rows, need far more room than there are rows; check the column of the trajectory"
        )
    time, time_unit = None, ""
    if roles.time is not None:
        time = table[:, place[roles.time]]
        time_unit = layout.units[roles.time]
        if layout.kinds[roles.time] != "number":
            time, time_unit = (time - time.min()) / 1e6, "s"
            guessed.append("times are dates, taken as seconds from the first")
        found = _in_order(found, time, guessed)
    return Arrays(
        padded([table[rows][:, chosen] for rows in found]),
        None if time is None else padded([time[rows] for rows in found]),
        None,
        names,
        lengths,
        variable=",".join(names),
        units=tuple(units),
        time_unit=time_unit,
        guessed=tuple(guessed),
        parameters=padded([table[rows][:, held] for rows in found]) if held else None,
    )


def _in_order(
    found: Sequence[np.ndarray], time: np.ndarray, guessed: list[str]
) -> list[np.ndarray]:
    """Return the rows of each trajectory by their times, which may stand anywhere."""
    back = sum(int((np.diff(time[rows]) < 0).sum()) for rows in found)
    if back:
        many = "once" if back == 1 else f"{back:,} times"
        guessed.append(f"rows are sorted by their times, which go back {many}")
    return [rows[np.argsort(time[rows], kind="stable")] for rows in found]


def _by_trajectory(identity: np.ndarray) -> list[np.ndarray]:
    """Return rows of each trajectory, in the order in which they come first."""
    _, first, which = np.unique(identity, return_index=True, return_inverse=True)
    order = np.argsort(which, kind="stable")
    parts = np.split(order, np.cumsum(np.bincount(which))[:-1])
    return [parts[k] for k in np.argsort(first)]
