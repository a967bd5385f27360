"""Options of vp-gen that belong to a table of the recipe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vpintegrator.data.split import GROUPS
from vpintegrator.errors import InputError


def recipe_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the command line, those that belong to a table of the recipe put into it."""
    options = dict(given)
    tables: dict[str, dict[str, Any]] = {"observation": {}, "split": {}, "stratified": {}}
    for key in ("noise", "relative_noise"):
        if key in options:
            values = read_numbers(options.pop(key), key)
            tables["observation"][key] = values if len(values) > 1 else values[0]
    for option, table, key in (
        ("missing_times", "observation", "missing"),
        ("split", "split", "by"),
        ("strata", "stratified", "strata"),
    ):
        if option in options:
            tables[table][key] = options.pop(option)
    if "fractions" in options:
        tables["split"] |= zip(GROUPS, read_fractions(options.pop("fractions")), strict=True)
    return options | {name: table for name, table in tables.items() if table}


def read_fractions(text: str) -> list[float]:
    """The parts of train, validation and test, written with commas between."""
    values = read_numbers(text, "fractions")
    if len(values) != len(GROUPS):
        raise InputError(f"--fractions {text}: expected three parts, as in 0.7,0.15,0.15")
    return values


def read_numbers(text: str, option: str) -> list[float]:
    """Numbers of an option, written with commas between."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        flag = option.replace("_", "-")
        raise InputError(f"--{flag} {text}: expected numbers with commas between") from None
