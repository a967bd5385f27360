"""Display of objects in notebooks, by whoever draws them; times in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_displays: list[Callable[[Any, str], str]] = []


def register(display: Callable[[Any, str], str]) -> None:
    """Set the function that displays objects, of a value and the name of a form.

    Displays contain figures, and the modules of systems and rollouts do not import those of
    figures. The package itself, which is above all of them, registers the function.
    """
    _displays[:] = [display]


def displayed(value: Any, form: str) -> str:
    """Return a system or a report in a ``form``, for Jupyter and programs with its protocol."""
    (display,) = _displays
    return display(value, form)


def duration(seconds: float) -> str:
    """Return a time in s, ms, µs or ns."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"
