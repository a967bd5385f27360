"""Machine code compiled in the background, while its user continues."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, Protocol, TypeVar

from vpintegrator.native import NotCompilable


class Compiler(Protocol):
    """A compiler at work."""

    @property
    def done(self) -> bool:
        """Whether there is nothing to wait for."""

    def stop(self) -> None:
        """End the compiler, or ignore its result."""


C = TypeVar("C", bound=Compiler)


class Awaited(ABC, Generic[C]):
    """Machine code that a compiler makes in the background.

    Attributes
    ----------
    failure
        Reason why the code will never be ready: the compiler failed in the background, or results
        differ from PyTorch's. None otherwise.
    """

    failure: NotCompilable | None = None
    _waiting: C | None = None
    _loaded = False

    @property
    def ready(self) -> bool:
        """Whether the compiler has done its work."""
        if self._waiting is not None and self._waiting.done:
            try:
                self._take(self._waiting)
            except NotCompilable as reason:
                self.failure = reason
        return self._loaded

    def stop(self) -> None:
        """Abandon a compiler that is still running."""
        if self._waiting is not None:
            self._waiting.stop()
            self._waiting = None

    def _await(self, compiler: C, wait: bool) -> None:
        """Take what a compiler makes, now or when it is done."""
        self._waiting = compiler
        if wait or compiler.done:
            self._take(compiler)

    def _take(self, compiler: C) -> None:
        self._waiting = None
        self._load(compiler)
        self._loaded = True

    @abstractmethod
    def _load(self, compiler: C) -> None:
        """Wait for what is made, and see whether it does what PyTorch does.

        Raises
        ------
        NotCompilable
            If it does not, or the compiler fails.
        """
