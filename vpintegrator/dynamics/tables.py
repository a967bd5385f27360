"""Tables of numbers as functions: ``[tables.NAME]`` in a system file.

    [tables.profile]
    x = [0.0, 0.25, 0.5, 0.75, 1.0]
    y = [1.0, 1.1, 1.4, 1.9, 2.6]
    boundary = "not-a-knot"       # or "periodic"

Expressions may hold ``profile(q)``, the cubic spline through the points. Outside the table the
value is NaN. ``file = "profile.csv"`` in place of ``x`` and ``y`` names a file beside the system
file; its two columns replace the key in the text of the system, so that stored files open alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vpintegrator.dynamics.expressions import FUNCTIONS, Function, check_name
from vpintegrator.dynamics.expressions.splines import cubic_spline, table_function
from vpintegrator.errors import InputError, nearest, printable
from vpintegrator.storage.toml import MAXIMUM_SIZE, check_keys, read_toml

_KEYS = ("x", "y", "boundary", "file")
_BOUNDARIES = ("not-a-knot", "periodic")
_FEWEST, _MOST = 4, 10_000  # points
_MOST_TABLES = 100
_HEADER = re.compile(r"^[ \t]*\[.*$", re.MULTILINE)
_FILE = re.compile(r"^[ \t]*file[ \t]*=.*$", re.MULTILINE)
_BETWEEN = re.compile(r"[,;\s]+")


def read_tables(
    file: Mapping[str, Any], source: str, taken: Collection[str]
) -> dict[str, Function]:
    """Return the functions of expressions by name, those of tables included.

    Parameters
    ----------
    file
        Tables of a system file.
    source
        Name of the system file, for messages.
    taken
        Names that no table can have.

    Raises
    ------
    InputError
        If a table is not understood.
    """
    tables = file.get("tables", {})
    if not isinstance(tables, Mapping) or not all(isinstance(t, Mapping) for t in tables.values()):
        raise InputError(f"{source}: 'tables' holds tables, each written [tables.NAME]")
    if len(tables) > _MOST_TABLES:
        raise InputError(f"{source}: {len(tables)} tables are more than the {_MOST_TABLES} allowed")
    found = dict(FUNCTIONS)
    for name, table in tables.items():
        where = f"{source}, [tables.{name}]"
        check_name(name, where)
        if name in found or name in taken:
            raise InputError(f"{where}: the name '{name}' is taken; choose another")
        found[name] = _function(name, table, where)
    return found


def _function(name: str, table: Mapping[str, Any], where: str) -> Function:
    check_keys(table, _KEYS, where)
    if "file" in table:
        raise InputError(
            f"{where} file: only a system that is loaded from a file can name one; give x and y"
        )
    boundary = table.get("boundary", _BOUNDARIES[0])
    if boundary not in _BOUNDARIES:
        raise InputError(
            f"{where} boundary: {boundary!r} is none of {', '.join(_BOUNDARIES)}"
            f"{nearest(str(boundary), _BOUNDARIES)}"
        )
    x, y = (_numbers(table, key, where) for key in ("x", "y"))
    if len(x) != len(y):
        raise InputError(f"{where}: x has {len(x)} numbers, but y has {len(y)}")
    if not _FEWEST <= len(x) <= _MOST:
        raise InputError(f"{where}: a table has {_FEWEST} to {_MOST} points, but this has {len(x)}")
    steps = np.diff(x)
    if (steps <= 0).any():
        k = int(np.argmax(steps <= 0))
        raise InputError(f"{where} x: {x[k + 1]:g} follows {x[k]:g}, but x must increase")
    if boundary == "periodic" and y[0] != y[-1]:
        raise InputError(
            f"{where}: a periodic table begins and ends with the same y, not {y[0]:g} and {y[-1]:g}"
        )
    try:
        with np.errstate(all="ignore"):
            spline = cubic_spline(x, y, boundary)
        finite = bool(np.isfinite(spline.coefficients).all())
    except (ValueError, np.linalg.LinAlgError):
        finite = False
    if not finite:
        raise InputError(f"{where}: no spline of finite coefficients goes through these points")
    return table_function(name, spline)


def _numbers(table: Mapping[str, Any], key: str, where: str) -> np.ndarray:
    given = table.get(key)
    if not isinstance(given, list) or not all(
        isinstance(entry, int | float) and not isinstance(entry, bool) for entry in given
    ):
        raise InputError(f"{where} {key}: expected a list of numbers, as in {key} = [0, 0.5, 1, 2]")
    try:
        numbers = np.array(given, dtype=np.float64)
    except OverflowError:
        numbers = np.array([np.inf])
    if not np.isfinite(numbers).all():
        raise InputError(f"{where} {key}: all numbers must be finite")
    return numbers


def with_table_files(text: str, path: Path) -> str:
    """Return the text of a system file with the columns of its tables' files in place of the names.

    Raises
    ------
    InputError
        If a file is missing, in another folder, or not of two columns of numbers.
    """
    if "tables" not in text or "file" not in text:
        return text
    tables = read_toml(text, path.name)
    own = tables.get("tables")
    named = own if isinstance(own, Mapping) else {}
    for name, table in named.items():
        if not isinstance(table, dict) or "file" not in table:
            continue
        where = f"{path.name}, [tables.{name}]"
        if "x" in table or "y" in table:
            raise InputError(f"{where}: give either 'file' or 'x' and 'y'")
        columns = _columns(table.pop("file"), path.parent, where)
        table |= columns
        lines = "\n".join(f"{key} = {values}" for key, values in columns.items())
        text = _replaced(text, name, lines)
    if read_toml(text, path.name) != tables:
        raise InputError(f"{path.name}: write 'file = ...' on a line below [tables.NAME]")
    return text


def _replaced(text: str, name: str, lines: str) -> str:
    """Return a text with lines in place of the key ``file`` of a table."""
    header = rf"^[ \t]*\[[ \t]*tables[ \t]*\.[ \t]*[\"']?{re.escape(name)}[\"']?[ \t]*\].*$"
    own = re.search(header, text, re.MULTILINE)
    if own is None:
        return text
    following = _HEADER.search(text, own.end())
    end = len(text) if following is None else following.start()
    entries = _FILE.sub(lambda _: lines, text[own.end() : end], count=1)
    return text[: own.end()] + entries + text[end:]


def _columns(name: Any, folder: Path, where: str) -> dict[str, list[float]]:
    """Return the two columns of a text file."""
    if not isinstance(name, str) or not name or Path(name).name != name:
        raise InputError(
            f"{where} file: expected the name of a file beside the system file, found {name!r}"
        )
    path = folder / name
    try:
        if not path.is_file():
            raise InputError(f"{where} file: there is no file {path}")
        if path.stat().st_size > MAXIMUM_SIZE:
            raise InputError(f"{where} file: {path} is larger than {MAXIMUM_SIZE} bytes")
        content = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{where} file: {path} is not a text file in UTF-8") from None
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{where} file: cannot read {printable(str(path))}") from None
    rows: list[tuple[float, float]] = []
    lines = [line.partition("#")[0].strip() for line in content.splitlines()]
    numbered = [(number, line) for number, line in enumerate(lines, start=1) if line]
    for number, line in numbered:
        entries = _BETWEEN.split(line)
        try:
            first, second = map(float, entries)
            if not math.isfinite(first) or not math.isfinite(second):
                raise ValueError
        except ValueError:
            if number == numbered[0][0] and len(entries) == 2:
                continue  # names of the columns
            raise InputError(
                f"{where} file: line {number} of {path.name} is not two finite numbers: "
                f"'{printable(line, 40)}'"
            ) from None
        rows.append((first, second))
    return {"x": [row[0] for row in rows], "y": [row[1] for row in rows]}
