"""Layout of a table in a text file: comments, separator, header, units, kinds of columns."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import IO

from vpintegrator.data.importing.cells import is_date, is_missing, is_number, split_unit
from vpintegrator.errors import InputError, nearest

_COMMENTS = ("#", "%", "//", "!", '"#')
_HEAD = 50  # rows looked at to tell numbers from text
_CELL = r"[^\s\[(]+(?:\s*[\[(][^\])]*[\])])?"  # between blanks, with a unit that may hold some


@dataclass(frozen=True)
class Layout:
    """Layout found in a text file.

    Attributes
    ----------
    names, units
        Names and units of the columns; empty strings for columns without.
    kinds
        Kind of each column by the first rows: ``number``, ``date``, ``text`` or ``empty``.
    first
        The first row.
    has_header
        Whether the file has a header with names.
    separator
        Separator between columns.
    rows
        Line number and cells of each row; the iterator can be read once.
    """

    names: list[str]
    units: list[str]
    kinds: list[str]
    first: list[str]
    has_header: bool
    separator: str
    rows: Iterator[tuple[int, list[str]]]


def find_layout(
    file: IO[str], where: str, columns: Sequence[str] | Mapping[str, str] | None = None
) -> Layout:
    """Find the layout of a table from its first lines.

    Parameters
    ----------
    file
        The opened text.
    where
        Name of the file, for messages.
    columns
        Names of the columns, where the file has no header; or new names of columns of a header.

    Raises
    ------
    InputError
        If there is no table.
    """
    lines = _Lines(file)
    first = lines.peek(2)
    if not first:
        what = "holds no rows of numbers" if lines.comments else "is empty"
        raise InputError(f"{where} {what}")
    separator = _separator(first)
    rows = _rows(lines, separator)
    head = list(islice(rows, _HEAD))
    if not head:
        raise InputError(f"{where} holds no rows of numbers")
    names, units, has_header = _header(head, lines.comments, separator)
    if has_header and len(set(filter(None, names))) < len([name for name in names if name]):
        twice = next(name for name in names if name and names.count(name) > 1)
        raise InputError(f"{where}: two columns are named '{twice}'")
    if isinstance(columns, Mapping):
        names = _renamed(names, columns, where) if has_header else names
        if not has_header:
            raise InputError(f"{where} has no header, so name all its columns, as in time,q,p")
    elif columns is not None:
        if has_header:
            raise InputError(
                f"{where} has a header ({', '.join(names)}): rename columns with OLD=NEW, or "
                "choose some with --variable (variable=... in Python)"
            )
        if len(columns) != len(names):
            raise InputError(f"{where} has {len(names)} columns, but {len(columns)} are named")
        names, units = [split_unit(n)[0] for n in columns], [split_unit(n)[1] for n in columns]
    kinds = [_kind([row[k] for _, row in head if k < len(row)]) for k in range(len(names))]
    first = [*(head[0][1] if head else []), *[""] * len(names)]
    return Layout(names, units, kinds, first, has_header, separator, chain(head, rows))


def _renamed(names: list[str], columns: Mapping[str, str], where: str) -> list[str]:
    """Return the names of the header with new ones for some."""
    for old in columns:
        if old not in names:
            hint = nearest(old, names) or f" (it has: {', '.join(names)})"
            raise InputError(f"{where} has no column '{old}' to be renamed{hint}")
    found = [str(columns.get(name, name)) for name in names]
    if twice := next((name for name in found if name and found.count(name) > 1), None):
        raise InputError(f"{where}: two columns would be named '{twice}'")
    return found


class _Lines:
    """Lines that are neither empty nor comments; it knows the number of the last one."""

    def __init__(self, file: IO[str]) -> None:
        self._file = enumerate(file, start=1)
        self.number = 0
        self.comments: list[str] = []  # comments before the first line
        self._begun = False
        self._kept: list[tuple[int, str]] = []

    def peek(self, count: int) -> list[str]:
        """Return the next lines, which stay to be read."""
        self._kept = [(self.number, line) for line in islice(self._read(), count)]
        return [line for _, line in self._kept]

    def __iter__(self) -> Iterator[str]:
        for number, line in self._kept:
            self.number = number
            yield line
        yield from self._read()

    def _read(self) -> Iterator[str]:
        for number, line in self._file:
            self.number = number
            text = line.strip()
            if text.startswith(_COMMENTS):
                if not self._begun and text.strip('#%/!" '):
                    self.comments = [*self.comments[-9:], text.strip('#%/!" ')]
            elif text:
                self._begun = True
                yield line


def _separator(lines: Sequence[str]) -> str:
    for mark in "\t;":
        if mark in lines[0].strip():
            return mark
    cells = lines[-1].split()
    if len(cells) > 1 and all(is_number(cell) for cell in cells):  # 0,1 2,5
        return " "
    return next((mark for mark in ",|" if mark in lines[0]), " ")


def _rows(lines: _Lines, separator: str) -> Iterator[tuple[int, list[str]]]:
    for cells in csv.reader(lines, delimiter=separator, skipinitialspace=True):
        cells = [cell.strip() for cell in cells]
        if separator == " ":
            cells = [cell for cell in cells if cell]
        if any(cells):
            yield lines.number, cells


def _header(
    head: list[tuple[int, list[str]]], comments: list[str], separator: str
) -> tuple[list[str], list[str], bool]:
    """Return names and units of the columns; rows that hold them are taken away from the head."""
    first = head[0][1]
    rest = [row for _, row in head[1:]]
    numbers = [is_number(cell) or is_date(cell) for cell in first]
    same = rest and [is_number(cell) or is_date(cell) for cell in rest[0]] == numbers
    if any(numbers) and (all(numbers) or same or not rest):
        for comment in reversed(comments):  # np.savetxt writes the header as a comment
            names = _cells(comment, separator)
            if len(names) == len(first) and not any(is_number(name) for name in names):
                return *_named(names), True
        return [""] * len(first), [""] * len(first), False
    del head[0]
    names = _cells(separator.join(first), " ") if separator == " " else first
    plain, units = _named(names)
    if _are_units(rest, len(plain)):
        below = [split_unit(f"x [{cell.strip('[]() ')}]")[1] for cell in rest[0]]
        units = [unit or other for unit, other in zip(units, below, strict=True)]
        del head[0]
    return plain, units, True


def _are_units(rows: Sequence[Sequence[str]], count: int) -> bool:
    """Whether the first row holds units, as instruments write them below the header.

    Then something stands in each column of numbers, and none of it is a number.
    """
    if len(rows) < 2 or not len(rows[0]) == len(rows[1]) == count:
        return False
    above = [unit for unit, cell in zip(rows[0], rows[1], strict=True) if is_number(cell)]
    return bool(above) and all(
        not is_number(unit) and (unit == "-" or not is_missing(unit)) for unit in above
    )


def _named(names: Sequence[str]) -> tuple[list[str], list[str]]:
    pairs = [split_unit(name) for name in names]
    return [name for name, _ in pairs], [unit for _, unit in pairs]


def _cells(line: str, separator: str) -> list[str]:
    if separator == " ":
        return re.findall(_CELL, line)
    return [cell.strip() for cell in next(csv.reader([line], delimiter=separator))]


def _kind(cells: Sequence[str]) -> str:
    if any(is_number(cell) for cell in cells):
        return "number"
    used = [cell for cell in cells if not is_missing(cell)]
    if not used:
        return "empty"
    return "date" if all(is_date(cell) for cell in used) else "text"
