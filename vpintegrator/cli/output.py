"""Output options of the commands: ``--quiet``, ``--json``, and plain lines without a terminal."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from vpintegrator.errors import printable

if TYPE_CHECKING:
    from rich.console import Console

UNLIMITED = 100_000  # letters of a line in a pipe: no table is as wide
_KEY = "vpintegrator.output"


def output_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--quiet`` and ``--json``, which the functions below read; no command receives them."""

    def keep(context: click.Context, option: click.Parameter, value: bool) -> None:
        if value:
            context.meta[f"{_KEY}.{option.name}"] = True

    for name, words in (
        ("json", "Write results as JSON to standard output, and all else to standard error."),
        ("quiet", "Print nothing but errors and what --json asks for."),
    ):
        option = click.option(
            f"--{name}", is_flag=True, expose_value=False, is_eager=True, callback=keep, help=words
        )
        command = option(command)
    return command


def verbose_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--verbose``, which :func:`is_asked` reads."""

    def keep(context: click.Context, option: click.Parameter, value: bool) -> None:
        if value:
            context.meta[f"{_KEY}.{option.name}"] = True

    words = "Print each model that is tried, what was chosen and why, and the table of the verdict."
    option = click.option(
        "-v",
        "--verbose",
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=keep,
        help=words,
    )
    return option(command)


def is_asked(option: str) -> bool:
    """Whether ``quiet``, ``json`` or ``verbose`` was given to the command that runs."""
    context = click.get_current_context(silent=True)
    return context is not None and f"{_KEY}.{option}" in context.meta


def width_of(console: Console) -> int | None:
    """Return the characters in a line of the terminal, or None for lines of any length."""
    return console.width if console.width < UNLIMITED else None


def write_json(make: Callable[[], Mapping[str, Any]]) -> None:
    """Print what ``make`` returns as JSON, if --json was given.

    JSON knows neither infinity nor NaN: these are ``"inf"``, ``"-inf"`` and null.
    """
    if is_asked("json"):
        click.echo(json.dumps(_strict(make()), indent=2, ensure_ascii=False))


def _strict(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {printable(str(key)): _strict(entry) for key, entry in value.items()}
    if isinstance(value, str):
        return printable(value) if not value.isprintable() and "\n" not in value else value
    if isinstance(value, os.PathLike):
        return printable(os.fspath(value))
    if hasattr(value, "tolist"):  # NumPy's numbers and arrays
        return _strict(value.tolist())
    if isinstance(value, list | tuple):
        return [_strict(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value
