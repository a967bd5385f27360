"""Folders of studies: a record of trainings that vary, beside a file of each model."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vpintegrator.arguments import as_path
from vpintegrator.errors import InputError, printable
from vpintegrator.storage.files import check_version, replacing

FORMAT = "vpintegrator-study"
FORMAT_VERSION = 1
RECORD = "study.json"
TABLE = "study.csv"
LARGEST = 1 << 26  # bytes of a record that is read
_NUMBERS = ("error", "deviation", "validation_error", "seconds", "epochs", "parameters", "cost")
_WORDS = ("model", "stopped_by", "note", "file")


@dataclass
class StudyRecord:
    """Trainings of a study that are finished, and what they have in common.

    Attributes
    ----------
    settings
        What all trainings share, by name: dataset, budget, arguments.
    varied
        Values of each varied quantity, by name.
    seeds
        Seeds of each combination.
    rows
        Row of each finished training: values of the varied quantities, ``seed``, errors and sizes,
        ``file``, and ``curve``, pairs (seconds, least error so far).
    """

    settings: dict[str, Any]
    varied: dict[str, list[Any]]
    seeds: list[int]
    rows: list[dict[str, Any]] = field(default_factory=list)

    @property
    def columns(self) -> list[str]:
        """Names of the columns of the table, the varied quantities first."""
        measured = [
            name for name in (*_WORDS[:1], *_NUMBERS, *_WORDS[1:]) if name not in self.varied
        ]
        return [*self.varied, "seed", *measured]

    def key(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the values that tell trainings apart."""
        return (*(row[name] for name in self.varied), row["seed"])


def write_study(folder: Path, record: StudyRecord) -> None:
    """Write the record of a study, and its table."""
    table = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "settings": record.settings,
        "varied": record.varied,
        "seeds": record.seeds,
        "trainings": record.rows,
    }
    with replacing(folder / RECORD, overwrite=True) as path:
        path.write_text(json.dumps(table, indent=1), encoding="utf-8")
    text = io.StringIO()
    writer = csv.DictWriter(text, record.columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(record.rows)
    with replacing(folder / TABLE, overwrite=True) as path:
        path.write_text(text.getvalue(), encoding="utf-8")


def is_study(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a folder with the record of a study."""
    return Path(path, RECORD).is_file()


def read_study(folder: str | os.PathLike[str]) -> StudyRecord:
    """Read the record of a study.

    Raises
    ------
    InputError
        If there is no such folder, it holds no study, or the record is damaged.
    """
    folder = as_path("study", folder)
    path = folder / RECORD
    if not folder.is_dir() or not path.is_file():
        what = "there is no folder" if not folder.is_dir() else f"there is no {RECORD} in"
        raise InputError(f"{what} {folder}: studies are made by vp-train --study")
    try:
        if path.stat().st_size > LARGEST:
            raise InputError("it is too large")
        table = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(table, dict) or table.get("format") != FORMAT:
            raise InputError(f"its format is not {FORMAT}")
        check_version(path, table.get("version"), FORMAT_VERSION)
        return _record(table)
    except (ValueError, RecursionError) as error:
        reason = printable(str(error)) if isinstance(error, InputError) else "it is damaged"
        raise InputError(f"{path} is no record of a study that can be read: {reason}") from None


def _record(table: Mapping[str, Any]) -> StudyRecord:
    """Return a record of a table of JSON, each part of which is checked."""
    settings = _of_kind(table, "settings", dict)
    varied = _of_kind(table, "varied", dict)
    seeds = _of_kind(table, "seeds", list)
    for name, values in varied.items():
        if not isinstance(values, list) or not all(map(_is_plain, values)):
            raise InputError(f"the values of {name} are no list of numbers and words")
    if not all(isinstance(seed, int) for seed in seeds):
        raise InputError("its seeds are no whole numbers")
    rows = _of_kind(table, "trainings", list)
    for row in rows:
        _check_row(row, varied)
    return StudyRecord(settings, varied, seeds, rows)


def _of_kind(table: Mapping[str, Any], key: str, kind: type) -> Any:
    if not isinstance(table.get(key), kind):
        raise InputError(f"it has no '{key}'")
    return table[key]


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


def _check_row(row: Any, varied: Mapping[str, Sequence[Any]]) -> None:
    """Raise InputError unless this is the row of a training."""
    if not isinstance(row, dict) or not isinstance(row.get("seed"), int):
        raise InputError("a training has no seed")
    for name in varied:
        if name not in row or not _is_plain(row[name]):
            raise InputError(f"a training has no {name}")
    for name in _NUMBERS:
        if name not in varied and not isinstance(row.get(name), int | float):
            raise InputError(f"a training has no {name}")
    for name in _WORDS:
        if not isinstance(row.get(name), str):
            raise InputError(f"a training has no {name}")
    if Path(row["file"]).name != row["file"]:
        raise InputError("a model is in another folder")
    curve = row["curve"] if isinstance(row.get("curve"), list) else [None]
    if not all(isinstance(pair, list) and [*map(type, pair)] == [float, float] for pair in curve):
        raise InputError("a training has no curve of its errors")


def thinned(seconds: Sequence[float], errors: Sequence[float], most: int = 60) -> list[list[float]]:
    """Return pairs (seconds, least error so far), at most so many, evenly in the logarithm.

    Examples
    --------
    >>> from vpintegrator.storage.studies import thinned
    >>> thinned([1.0, 2.0, 3.0], [0.5, 0.7, 0.1])
    [[1.0, 0.5], [2.0, 0.5], [3.0, 0.1]]
    """
    least = math.inf
    pairs = []
    for time, error in zip(seconds, errors, strict=True):
        least = min(least, error) if math.isfinite(error) else least
        if math.isfinite(least):
            pairs.append([float(time), float(least)])
    if len(pairs) <= most:
        return pairs
    last = len(pairs) - 1
    places = sorted({round(last ** (k / (most - 1))) for k in range(most)} | {0, last})
    return [pairs[place] for place in places]
