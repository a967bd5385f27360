"""Check of the memory needed, before memory is allocated."""

from __future__ import annotations

import contextlib
import os

from vpintegrator.errors import InputError


def check_memory(what: str, values: float, advice: str) -> None:
    """Say before they are made that so many float64 numbers do not fit into the memory.

    Raises
    ------
    InputError
        If they do not; ``what`` says what they are, ``advice`` how to ask for fewer.
    """
    needed, there = 8 * values, _memory()
    if needed > there:
        raise InputError(
            f"{what} would need {in_bytes(needed)} of memory, and this machine has "
            f"{in_bytes(there)}; {advice}"
        )


def in_bytes(size: float) -> str:
    """Return a number of bytes in words."""
    unit, scale = ("GiB", 2**30) if size >= 2**30 else ("MiB", 2**20)
    return f"{size / scale:,.1f} {unit}"


def _memory() -> float:
    """Return the bytes of memory of this machine, infinite if not known."""
    with contextlib.suppress(AttributeError, ValueError, OSError):
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return float("inf")
