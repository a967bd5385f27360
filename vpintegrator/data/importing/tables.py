"""Trajectories in text files: a header, and a row of numbers for each state."""

from __future__ import annotations

import csv
import re
from array import array
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from vpintegrator.data.importing.arrays import TIMES, TRAJECTORIES, Arrays
from vpintegrator.dynamics.expression import nearest
from vpintegrator.errors import InputError


def read_table(path: Path, variable: str | None) -> Arrays:
    """Columns with a header: components, and if there are any, time and trajectory.

    Rows of one trajectory may stand anywhere; its times are in their order.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            header, rows = _rows(file, path)
            plain = [plain_name(name).lower() for name in header]
            time = next((k for k, name in enumerate(plain) if name in TIMES), None)
            identity = next((k for k, name in enumerate(plain) if name in TRAJECTORIES), None)
            values = array("d")
            labels: dict[str, int] = {}
            for line, row in rows:
                if len(row) != len(header):
                    raise InputError(
                        f"{path}, line {line}: {len(row)} values, but the header names "
                        f"{len(header)} columns"
                    )
                if identity is not None:  # it may be a word
                    row[identity] = str(labels.setdefault(row[identity], len(labels)))
                for name, text in zip(header, row, strict=True):
                    values.append(_number(text, f"{path}, line {line}, column {name}"))
    except UnicodeDecodeError:
        raise InputError(f"{path} is not a text file with numbers in columns") from None
    except csv.Error as error:
        raise InputError(f"{path} cannot be read as a table: {error}") from None
    table = np.frombuffer(values, dtype=np.float64).reshape(-1, len(header))
    if not len(table):
        raise InputError(f"{path} holds no rows of numbers")
    if variable is None:
        columns = [k for k in range(len(header)) if k not in (time, identity)]
        if not columns:
            raise InputError(f"{path} has no column for the states, only {', '.join(header)}")
    else:
        columns = []
        for name in (part.strip() for part in variable.split(",")):
            if name not in header:
                hint = nearest(name, header) or f" (it has: {', '.join(header)})"
                raise InputError(f"{path} has no column '{name}'{hint}")
            columns.append(header.index(name))
    names = tuple(header[k] for k in columns)
    if time in columns:
        time = None
    found = [np.arange(len(table))] if identity is None else _by_trajectory(table[:, identity])
    lengths = np.array([len(rows) for rows in found])
    states = np.full((len(found), lengths.max(), len(columns)), np.nan)
    times = np.full(states.shape[:2], np.nan)
    for k, part in enumerate(found):
        states[k, : len(part)] = table[part][:, columns]
        if time is not None:
            times[k, : len(part)] = table[part, time]
    return Arrays(
        states, None if time is None else times, None, names, lengths, variable=",".join(names)
    )


def _rows(file: Any, path: Path) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """Names of the columns, and the numbered rows of values."""
    lines = ((k, line.strip().lstrip("#").strip()) for k, line in enumerate(file, start=1))
    number, names = next(((k, text) for k, text in lines if text), (0, ""))
    if not names:
        raise InputError(f"{path} is empty")
    delimiter = next((mark for mark in "\t;," if mark in names), " ")
    header = _cells(next(csv.reader([names], delimiter=delimiter, skipinitialspace=True)))

    def rows(lines: Iterator[str], start: int) -> Iterator[tuple[int, list[str]]]:
        for count, row in enumerate(csv.reader(lines, delimiter=delimiter, skipinitialspace=True)):
            cells = [c for c in _cells(row) if c] if delimiter == " " else _cells(row)
            if cells and any(cells) and not cells[0].startswith("#"):
                yield start + count, cells

    if delimiter == " ":
        header = [name for name in header if name]
    if all(_is_number(name) for name in header):  # no header: the first line holds numbers
        header = [f"z{k + 1}" for k in range(len(header))]
        return header, rows(chain([names], file), number)
    if len(set(header)) < len(header):
        twice = next(name for name in header if header.count(name) > 1)
        raise InputError(f"{path}: two columns are named '{twice}'")
    return header, rows(file, number + 1)


def _cells(row: list[str]) -> list[str]:
    return [cell.strip() for cell in row]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _number(text: str, where: str) -> float:
    if text.lower() in ("", "na", "n/a", "null", "none"):
        return float("nan")
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{where}: '{text}' is not a number") from None


def _by_trajectory(identity: np.ndarray) -> list[np.ndarray]:
    """Rows of each trajectory, in the order in which they come first."""
    _, first, which = np.unique(identity, return_index=True, return_inverse=True)
    order = np.argsort(which, kind="stable")
    parts = np.split(order, np.cumsum(np.bincount(which))[:-1])
    return [parts[k] for k in np.argsort(first)]


def plain_name(name: str) -> str:
    """A column's name without its unit in brackets, and with letters, digits and _ only."""
    return re.sub(r"\W+", "_", re.sub(r"[\[(].*", "", name).strip()).strip("_")
