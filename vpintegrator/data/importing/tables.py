"""Trajectories in text tables, read by pandas: a row for each state, with a header or without."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vpintegrator.data.importing.arrays import (
    TIMES,
    TRAJECTORIES,
    Arrays,
    padded,
)
from vpintegrator.data.importing.columns import plain_name, split_unit
from vpintegrator.errors import InputError, nearest
from vpintegrator.storage.reading import COMPRESSION, LARGEST_UNSTORED

_COMMENT = re.compile(rb'(?m)^[ \t]*(?:[#%!]|//|"#).*$')
_ROW = re.compile(rb"(?m)^.*\S.*$")
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")  # in no text, so the file is something else
_NUMBER = r"[+-]?(?:\d+[.,]?\d*|[.,]\d+)(?:[eE][+-]?\d+)?"
_DATE = r"\d{4}-\d\d-\d\d.*"
_WORD = r"[^\s\[(]+(?:\s*[\[(][^\])]*[\])])?"  # between blanks, with a unit that may hold some
_MISSING = ("-", "--")  # beside what pandas takes for missing
_HEAD = 50  # rows that tell numbers from text
_HEAD_BYTES = 1 << 16  # bytes that tell the decimal mark
_ROOM = 1000  # states of room for each that is there: one trajectory may be far longer than others
_SMALL = 1_000_000  # states that nobody minds
_MOST_COLUMNS = 10_000  # pandas needs a kilobyte or more for each
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
        If the file is damaged or no table, in a sentence that says where. Also if pandas is not
        installed.
    """
    if decimal not in (None, ".", ","):
        raise InputError(f"the decimal mark is '.' or ',', not '{decimal}'")
    guessed: list[str] = []
    table = _Table(_text(path, guessed), str(path), decimal, columns, guessed)
    roles = _Roles(table, variable, parameters)
    if variable is None:
        roles.settle(step, guessed)
    return _arrange(table, roles, guessed)


def _text(path: Path, guessed: list[str]) -> bytes:
    """Return the text in UTF-8, with empty lines in place of comments that are no header."""
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    most = LARGEST_UNSTORED + COMPRESSION * path.stat().st_size
    try:
        with gzip.open(path) if packed else path.open("rb") as file:
            text = file.read(most + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path} is damaged: it cannot be unpacked by gzip: {error}") from None
    if len(text) > most:
        raise InputError(
            f"{path} unpacks to more than {most:,} bytes, which is out of proportion to the "
            "file; unpack it yourself if it is sound"
        )
    try:
        if text[:2] in (b"\xff\xfe", b"\xfe\xff"):
            text = text.decode("utf-16").encode()
        else:
            text.decode()
    except UnicodeError:
        text = text.decode("cp1252", "replace").encode()
        guessed.append("the encoding is Latin-1 (Windows-1252), as the file is not UTF-8")
    if _CONTROL.search(text):
        raise InputError(
            f"{path} is not a text file with numbers in columns; if it is a table, save it as "
            "text in UTF-8"
        )
    return text.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")


class _Table:
    """A text table.

    Attributes
    ----------
    names, units
        Names and units of the columns; empty strings for columns without.
    has_header
        Whether the file names the columns.
    """

    def __init__(
        self,
        text: bytes,
        where: str,
        decimal: str | None,
        columns: Sequence[str] | Mapping[str, str] | None,
        guessed: list[str],
    ) -> None:
        comments = [line.strip().decode() for line in _COMMENT.findall(text[:_HEAD_BYTES])]
        self._text, self._where = _COMMENT.sub(b"", text), where
        first = _ROW.search(self._text)
        if first is None:
            raise InputError(f"{where} {'holds no rows of numbers' if comments else 'is empty'}")
        line = first[0].decode()
        self.separator = _separator(line)
        header = _cells(line, self.separator)
        if len(header) > _MOST_COLUMNS:
            raise InputError(
                f"{where} has {len(header):,} columns; more than {_MOST_COLUMNS:,} are read from "
                "files .npy or .h5 only"
            )
        self._above = 0
        if not any(re.fullmatch(f"{_NUMBER}|{_DATE}", cell) for cell in header):
            self._above = self._text.count(b"\n", 0, first.end()) + 1
        body = self._text[first.end() if self._above else first.start() :][:_HEAD_BYTES].decode(
            errors="replace"
        )
        if decimal is None and _has_decimal_comma(body, self.separator):
            self.decimal = ","
            guessed.append("the comma is the decimal mark (--decimal says which one is)")
        else:
            self.decimal = decimal or "."
        self._frame = self._read()
        if not self._above:
            header = _named_by_comment(comments, self.separator, self._frame.shape[1])
        self.has_header = bool(header)
        self.names, self.units = self._named(header, columns)

    def _read(self) -> Any:
        """Return the rows as a DataFrame without names."""
        pandas = _pandas(self._where)
        try:
            return pandas.read_csv(
                io.BytesIO(self._text),
                header=None,
                skiprows=self._above,
                sep=r"\s+" if self.separator == " " else self.separator,
                decimal=self.decimal,
                skipinitialspace=True,
                na_values=_MISSING,
                low_memory=False,
            )
        except pandas.errors.EmptyDataError:
            raise InputError(f"{self._where} holds no rows of numbers") from None
        except pandas.errors.ParserError as error:
            found = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error))
            if found is None:
                raise InputError(
                    f"{self._where} cannot be read as a table: {str(error).strip()}"
                ) from None
            raise InputError(
                f"{self._where}, line {found[2]}: {found[3]} values, but the first row has "
                f"{found[1]}{self._advice()}"
            ) from None

    def _advice(self) -> str:
        if self.separator != ",":
            return ""
        return "; where the comma is the decimal mark, columns need another separator"

    def _named(
        self, header: list[str], columns: Sequence[str] | Mapping[str, str] | None
    ) -> tuple[list[str], list[str]]:
        """Return names and units of the columns."""
        where, width = self._where, self._frame.shape[1]
        if header and len(header) == width - 1 and self._frame[width - 1].isna().all():
            width -= 1  # a separator behind the last cell
        if header and len(header) != width:
            raise InputError(
                f"{where}: the header names {len(header)} columns, but rows have {width}"
                f"{self._advice()}"
            )
        if columns is not None and not isinstance(columns, Mapping):
            if header:
                raise InputError(
                    f"{where} has a header ({', '.join(header)}): rename columns with OLD=NEW, or "
                    "choose some with --variable (variable=... in Python)"
                )
            if len(columns) != width:
                raise InputError(f"{where} has {width} columns, but {len(columns)} are named")
        elif columns is not None and not header:
            raise InputError(f"{where} has no header, so name all its columns, as in time,q,p")
        pairs = [split_unit(name) for name in header]
        names, units = [name for name, _ in pairs], [unit for _, unit in pairs]
        if isinstance(columns, Mapping):
            for old in columns:
                if old not in names:
                    hint = nearest(old, names) or f" (it has: {', '.join(names)})"
                    raise InputError(f"{where} has no column '{old}' to be renamed{hint}")
            names = [str(columns.get(name, name)) for name in names]
        elif columns is not None:
            names, units = [split_unit(n)[0] for n in columns], [split_unit(n)[1] for n in columns]
        if twice := next((name for name in names if name and names.count(name) > 1), None):
            verb = "would be" if columns else "are"
            raise InputError(f"{where}: two columns {verb} named '{twice}'")
        return names or [""] * width, units or [""] * width

    def __str__(self) -> str:
        """Return the file's name, for messages."""
        return self._where

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._frame)

    def label(self, k: int) -> str:
        """Return the name of a column, or its number."""
        return self.names[k] or f"number {k + 1}"

    def kind(self, k: int) -> str:
        """Return the kind of a column by its first rows: number, date, text or empty."""
        column = self._frame[k]
        cells = column.dropna()[:_HEAD].astype(str).str.strip()
        if cells.empty:
            return "empty"
        if column.dtype.kind in "iuf" or cells.str.fullmatch(_NUMBER).any():
            return "number"
        return "date" if cells.str.fullmatch(_DATE).all() else "text"

    def first(self, k: int) -> str:
        """Return the first cell of a column."""
        return str(self._frame[k].iloc[0])

    def trajectories(self, k: int) -> list[np.ndarray]:
        """Return the rows of each trajectory, in which the cells of a column are the same."""
        return list(self._frame.groupby(k, sort=False, dropna=False).indices.values())

    def numbers(self, k: int) -> np.ndarray:
        """Return a column, NaN where nothing stands, or InputError if a cell is no number."""
        column = self._frame[k]
        if column.dtype.kind in "iuf":
            return column.to_numpy(dtype=np.float64)
        cells = column.astype(str).str.strip()
        if self.decimal == ",":
            cells = cells.str.translate({ord(","): ".", ord("."): ","})
        found = _pandas(self._where).to_numeric(cells, errors="coerce").astype(float)
        other = "." if self.decimal == "," else ","
        self._check(k, found, "is not a number", other)
        return found.to_numpy()

    def seconds(self, k: int) -> np.ndarray:
        """Return a column of dates as seconds from the first, in UTC where no zone is given."""
        column = self._frame[k].astype(str)
        dates = _pandas(self._where).to_datetime(
            column, format="ISO8601", utc=True, errors="coerce"
        )
        self._check(k, dates, "is not a time as of ISO 8601, such as 2026-05-01T12:00:00.5")
        return (dates - dates.min()).dt.total_seconds().to_numpy()

    def _check(self, k: int, read: Any, what: str, other: str = "") -> None:
        """Raise InputError where a cell is there, and was not read."""
        bad = np.flatnonzero(read.isna() & self._frame[k].notna())
        if not len(bad):
            return
        text = str(self._frame[k].iloc[bad[0]])[:60]
        advice = ""
        if other and other in text and re.fullmatch(_NUMBER, text):
            advice = f" where '{self.decimal}' is the decimal mark; --decimal says which one it is"
        elif bad[0] == 0 and self._above:
            advice = "; if it is a unit, delete the line, or write the unit as in x [m]"
        rows = (n for n, row in enumerate(self._text.split(b"\n"), 1) if row.strip())
        line = [n for n in rows if n > self._above][bad[0]]
        raise InputError(
            f"{self._where}, line {line}, column {self.label(k)}: '{text}' {what}{advice}"
        )


def _pandas(where: str) -> Any:
    try:
        import pandas  # optional, and slow to load
    except ImportError:
        raise InputError(
            f"{where} is a text table, which takes pandas: pip install 'vpintegrator[tables]'"
        ) from None
    return pandas


def _separator(line: str) -> str:
    cells = line.split()
    if len(cells) > 1 and all(re.fullmatch(_NUMBER, cell) for cell in cells):  # 0,1 2,5
        return "\t" if "\t" in line.strip() else " "
    return next((mark for mark in "\t;,|" if mark in line.strip()), " ")


def _cells(line: str, separator: str) -> list[str]:
    if separator == " ":
        return re.findall(_WORD, line)
    cells = next(csv.reader([line], delimiter=separator, skipinitialspace=True))
    return [cell.strip() for cell in cells]


def _has_decimal_comma(body: str, separator: str) -> bool:
    begin = '"[+-]?' if separator == "," else ""  # between commas, such numbers are quoted
    return re.search(rf"{begin}\d,\d", body) is not None


def _named_by_comment(comments: Sequence[str], separator: str, width: int) -> list[str]:
    """Return the header in the last comment that can be one, as np.savetxt writes it."""
    for comment in reversed(comments):
        names = _cells(comment.strip('#%/!" '), separator)
        if len(names) == width and not any(re.fullmatch(_NUMBER, name) for name in names):
            return names
    return []


class _Roles:
    """Roles of columns: components, time, trajectory, parameters, or left out."""

    def __init__(self, table: _Table, variable: str | None, parameters: Sequence[str]) -> None:
        self._table = table
        plain = [plain_name(name).lower() for name in table.names]
        kinds = [table.kind(k) for k in range(len(plain))]
        self.parameters = [self._find(name) for name in parameters]
        self.time = next((k for k, name in enumerate(plain) if name in TIMES), None)
        if self.time is None:
            self.time = next((k for k, kind in enumerate(kinds) if kind == "date"), None)
        self.trajectory = next((k for k, name in enumerate(plain) if name in TRAJECTORIES), None)
        self.columns: list[int] = []
        self.left_out: list[int] = []
        if variable is not None:
            self.columns = [self._find(part.strip()) for part in variable.split(",")]
            if self.time in self.columns:
                self.time = None
            return
        for k, kind in enumerate(kinds):
            if k in (self.time, self.trajectory, *self.parameters):
                continue
            if kind in ("text", "date"):
                self.left_out.append(k)
            elif kind == "number" or table.names[k]:
                self.columns.append(k)
        if not self.columns:
            shown = f", only {', '.join(filter(None, table.names)) or 'dates'}"
            if self.left_out:
                k = self.left_out[0]
                shown = f": column {table.label(k)} holds text such as '{table.first(k)}'"
            raise InputError(f"{table} has no column for the states{shown}")

    def _find(self, name: str) -> int:
        """Return the column of a name."""
        names = self._table.names
        known = names if any(names) else [f"z{k + 1}" for k in range(len(names))]
        bare = plain_name(name)
        for same in (lambda other: name in (other, plain_name(other)), lambda other: bare == other):
            for k, other in enumerate(known):
                if other and same(other):
                    return k
        hint = nearest(name, known) or f" (it has: {', '.join(known)})"
        raise InputError(f"{self._table} has no column '{name}'{hint}")

    def settle(self, step: float | None, guessed: list[str]) -> None:
        """Decide what the numbers tell: time without a name, and a column that counts rows."""
        table = self._table
        if self.left_out:
            names = ", ".join(table.label(k) for k in self.left_out)
            guessed.append(f"left out as text: {names}")
        first = self.columns[0]
        values = table.numbers(first)
        steps = np.diff(values)
        alone = len(self.columns) == 1
        if not any(table.names):
            like = step is None or abs(float(np.median(steps)) - step) < _LIKE_STEP * step
            possible = self.time is None and first == 0 and not alone
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
        elif not table.names[first] and not alone and (steps == 1).all() and values[0] in (0, 1):
            self.columns.remove(first)
            guessed.append("left out, as it counts the rows: the first column, without a name")


def _arrange(table: _Table, roles: _Roles, guessed: list[str]) -> Arrays:
    """Return rows as trajectories, each in the order of its times."""
    names = tuple(table.names[k] or f"z{number + 1}" for number, k in enumerate(roles.columns))
    states = np.stack([table.numbers(k) for k in roles.columns], axis=-1)
    found = [np.arange(len(table))]
    if roles.trajectory is not None:
        found = table.trajectories(roles.trajectory)
    lengths = np.array([len(rows) for rows in found])
    if int(lengths.max()) * len(found) > _SMALL + _ROOM * len(table):
        raise InputError(
            f"{table}: {len(found):,} trajectories, of which the longest has {lengths.max():,} "
            "rows, need far more room than there are rows; check the column of the trajectory"
        )
    time, time_unit = None, ""
    if roles.time is not None:
        time_unit = table.units[roles.time]
        if table.kind(roles.time) == "number":
            time = table.numbers(roles.time)
        else:
            time, time_unit = table.seconds(roles.time), "s"
            guessed.append("times are dates, taken as seconds from the first")
        found = _in_order(found, time, guessed)
    held = [table.numbers(k) for k in roles.parameters]
    return Arrays(
        padded([states[rows] for rows in found]),
        None if time is None else padded([time[rows] for rows in found]),
        None,
        names,
        lengths,
        variable=",".join(names),
        units=tuple(table.units[k] for k in roles.columns),
        time_unit=time_unit,
        guessed=tuple(guessed),
        parameters=padded([np.stack(held, axis=-1)[rows] for rows in found]) if held else None,
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
