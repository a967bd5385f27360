"""A time at which work is cut short, so that a budget in seconds holds whatever the work is."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from vpintegrator.runtime.interrupts import TimeIsUp, check_signals, held_back

BEYOND = 1.1  # times the seconds of a budget, at which work is cut short

_deadline: ContextVar[float] = ContextVar("deadline", default=math.inf)


@contextmanager
def until(end: float, *, anew: bool = False) -> Iterator[None]:
    """Cut short what is done in the block, at a value of ``time.perf_counter``.

    Blocks may stand in one another; the earliest time counts, but for those outside of one that is
    ``anew``.

    Raises
    ------
    TimeIsUp
        At the next call of :func:`check_time`.

    Examples
    --------
    >>> from vpintegrator.runtime.deadline import TimeIsUp, check_time, until
    >>> try:
    ...     with until(0.0):
    ...         check_time()
    ... except TimeIsUp:
    ...     print("cut short")
    cut short
    """
    token = _deadline.set(end if anew else min(end, _deadline.get()))
    try:
        yield
    finally:
        _deadline.reset(token)


@contextmanager
def unhurried() -> Iterator[None]:
    """Lift all deadlines, and let signals wait, for short work that must be done to its end."""
    with held_back(), until(math.inf, anew=True):
        yield


def time_left() -> float:
    """Return the seconds until the deadline, negative after it; infinite without one."""
    end = _deadline.get()
    return end - time.perf_counter() if math.isfinite(end) else math.inf


def check_time(needed: float = 0.0) -> None:
    """Raise TimeIsUp if the next part of some work, of so many seconds, ends after the deadline.

    Raise KeyboardInterrupt if a signal waits, see :mod:`vpintegrator.runtime.interrupts`.
    """
    check_signals()
    if time.perf_counter() + needed > _deadline.get():
        raise TimeIsUp
