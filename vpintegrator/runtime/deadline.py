"""A time at which work is cut short, so that a budget in seconds holds whatever the work is."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

BEYOND = 1.1  # times the seconds of a stage, at which it is cut short

_deadline: ContextVar[float] = ContextVar("deadline", default=math.inf)


class TimeIsUp(Exception):
    """Raised between two parts of an iteration."""


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


def at_latest(end: float) -> AbstractContextManager[None]:
    """Set a deadline like :func:`until`, unless an outer one is set."""
    return until(end) if math.isinf(_deadline.get()) else nullcontext()


def check_time() -> None:
    """Raise TimeIsUp if it is; called between parts of work that may take long."""
    if time.perf_counter() > _deadline.get():
        raise TimeIsUp
