"""Delay of Ctrl-C and SIGTERM during work that must not be interrupted."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_NUMBERS = (signal.SIGINT, signal.SIGTERM)


class HeldBack:
    """Signal that arrived during the block, if any."""

    def __init__(self) -> None:
        self.number: int | None = None
        self.handlers: dict[int, Any] = {}

    def __bool__(self) -> bool:
        return self.number is not None

    def forget(self) -> None:
        """Discard the signal after it has been obeyed."""
        self.number = None

    def let_through(self) -> None:
        """Obey the signal now, before the end of the block."""
        number, self.number = self.number, None
        if number is not None:
            self.handlers[number](number, None)


@contextmanager
def held_back() -> Iterator[HeldBack]:
    """Let Ctrl-C and SIGTERM wait for the end of the block, unless they are forgotten in it.

    SIGTERM is held back only where it raises an exception, see :func:`terminate_as_interrupt`, and
    otherwise ends the process as ever. Blocks may stand in one another. Outside of the main thread,
    where signals raise nothing, the block does nothing.
    """
    held = HeldBack()
    if threading.current_thread() is not threading.main_thread():
        yield held
        return

    def hold(number: int, frame: FrameType | None) -> None:
        held.number = number

    try:
        for number in _NUMBERS:
            handler = signal.getsignal(number)
            if callable(handler):
                held.handlers[number] = handler
                signal.signal(number, hold)
        yield held
    finally:
        for held_number, handler in held.handlers.items():
            signal.signal(held_number, handler)
        if held.number is not None:
            signal.raise_signal(held.number)


def terminate_as_interrupt() -> Any:
    """Let SIGTERM, a cluster's way to say that the time is over, raise KeyboardInterrupt too.

    The previous handler is returned.
    """
    return signal.signal(signal.SIGTERM, _raise)


def _raise(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
