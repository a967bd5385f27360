"""Ends of long work, which keeps its best result so far: Ctrl-C, SIGTERM, and deadlines.

A signal raises nothing by itself inside of these blocks: :func:`check_time` raises
KeyboardInterrupt between two parts of the work. So a signal breaks no file, no copy of weights and
no list of results.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import Any


class TimeIsUp(KeyboardInterrupt):
    """Interruption by the end of the time, raised between two parts of some work.

    Whoever handles an interruption by Ctrl-C handles this one, too: the best result so far counts.
    """


class Signals:
    """Signal that waits, and the blocks that are to deal with it."""

    def __init__(self) -> None:
        self.number: int | None = None
        self.handlers: dict[int, Any] = {}  # those from before the outermost block
        self.stopping = 0  # blocks of ``stopping`` around the code at hand
        self.is_holding = False  # whether the innermost block is one of ``held_back``
        self.is_obeyed = False

    def __bool__(self) -> bool:
        return self.number is not None

    def forget(self) -> None:
        """Let the outermost block end as if there had been no signal."""
        self.is_obeyed = True

    def catch(self) -> None:
        """Let signals wait."""
        self.number = None
        self.is_obeyed = False
        self.handlers = {}
        for number in (signal.SIGINT, signal.SIGTERM):
            handler = signal.getsignal(number)
            if handler not in (signal.SIG_IGN, None):  # None is a handler of another language
                self.handlers[number] = handler
                signal.signal(number, self._note)

    def release(self) -> None:
        """Let signals do again what they did, and send one again that no block has obeyed.

        SIGTERM is sent again in any case, unless it is for :func:`terminate_as_interrupt`: who
        sends it wants the program to end.
        """
        for caught, handler in reversed(self.handlers.items()):
            signal.signal(caught, handler)
        number = self.number
        self.number = None
        is_final = number == signal.SIGTERM and self.handlers.get(number) is not _raise
        if number is not None and (is_final or not self.is_obeyed):
            signal.raise_signal(number)

    def _note(self, number: int, frame: FrameType | None) -> None:
        again = self.number is not None
        self.number = number
        if again and self.stopping and not self.is_holding:
            raise KeyboardInterrupt  # who asks twice does not wait for the next part of the work


_signals = Signals()


class Ending:
    """Cause of the end of a block: "interrupt", "seconds", or "" where nothing cut it short."""

    by: str = ""


@contextmanager
def stopping() -> Iterator[Ending]:
    """End a block at Ctrl-C, SIGTERM or the end of the time, and go on after it.

    Blocks may stand in one another: a signal that ends an inner one ends the outer ones at their
    next :func:`check_time`. A second signal does not wait for that.

    Yields
    ------
    Ending
        Its ``by`` says after the block how it ended.

    Examples
    --------
    >>> from vpintegrator.runtime.interrupts import check_time, until
    >>> from vpintegrator.runtime.interrupts import stopping
    >>> with stopping() as end, until(0.0):
    ...     check_time()
    >>> end.by
    'seconds'
    """
    end = Ending()
    with _block(_signals.stopping + 1, is_holding=False):
        try:
            yield end
            check_signals()  # one that came after the last part of the work
        except TimeIsUp:
            end.by = "seconds"
        except KeyboardInterrupt:
            end.by = "interrupt"
            _signals.is_obeyed = True
            if not _signals and _in_main_thread():  # raised without a signal
                _signals.number = signal.SIGINT


@contextmanager
def held_back() -> Iterator[Signals]:
    """Let Ctrl-C and SIGTERM wait for the end of the block, unless they are forgotten in it.

    Blocks may stand in one another, and in those of :func:`stopping`; the innermost one decides.
    Outside of the main thread, where signals raise nothing, the block does nothing.
    """
    with _block(_signals.stopping, is_holding=True):
        yield _signals if _in_main_thread() else Signals()


def check_signals() -> None:
    """Raise KeyboardInterrupt if a signal waits for the block at hand to end."""
    if _signals and _signals.stopping and not _signals.is_holding and _in_main_thread():
        raise KeyboardInterrupt


@contextmanager
def _block(stopping: int, is_holding: bool) -> Iterator[None]:
    if not _in_main_thread():
        yield
        return
    before = _signals.stopping, _signals.is_holding
    if not any(before):
        _signals.catch()
    _signals.stopping = stopping
    _signals.is_holding = is_holding
    try:
        yield
    finally:
        _signals.stopping, _signals.is_holding = before
        if not any(before):
            _signals.release()


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def terminate_as_interrupt() -> Any:
    """Let SIGTERM, a cluster's way to say that the time is over, raise KeyboardInterrupt too.

    The previous handler is returned.
    """
    return signal.signal(signal.SIGTERM, _raise)


def _raise(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


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
    >>> from vpintegrator.runtime.interrupts import TimeIsUp, check_time, until
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

    Raise KeyboardInterrupt if a signal waits.
    """
    check_signals()
    if time.perf_counter() + needed > _deadline.get():
        raise TimeIsUp
