"""Display of objects in notebooks by a module of figures; times in words."""

from __future__ import annotations

import importlib
from typing import Any


def displayed(value: Any, form: str) -> str:
    """Return a value in a ``form``, for Jupyter and other programs that follow its protocol.

    The answers contain figures, and the modules of systems and rollouts must not import those of
    figures. So the module of displays is imported when a notebook asks, and importing the package
    stays fast.

    Parameters
    ----------
    value
        A system or a report.
    form
        Name of a function of ``vpintegrator.plotting.displays``.
    """
    return str(getattr(importlib.import_module("vpintegrator.plotting.displays"), form)(value))


def duration(seconds: float) -> str:
    """Return a time in s, ms, µs or ns."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"
