"""Numbers in recipes, and tables of recipes that have classes of their own."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np

from vpintegrator.errors import InputError
from vpintegrator.storage.toml import check_keys

Table = TypeVar("Table")


def is_number(value: Any) -> bool:
    """Whether this is one finite real number; true and false are none."""
    real = isinstance(value, int | float | np.integer | np.floating)
    # a whole number of Python may be too large to become a float
    return real and not isinstance(value, bool) and bool(abs(value) <= sys.float_info.max)


def read_fields(
    kind: type[Table], table: Mapping[str, Any], where: str, lists: Iterable[str]
) -> Table:
    """Return an instance of a dataclass from a table of its fields, some of which must be lists."""
    check_keys(table, [field.name for field in fields(kind)], where)  # type: ignore[arg-type]
    for key in lists:
        if not isinstance(table.get(key, []), list | tuple):
            raise InputError(f"{where} {key}: expected a list, found {table[key]!r}")
    return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in table.items()})
