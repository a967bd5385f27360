"""A map whose errors end its own row of a comparison, and no other."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from vpintegrator.errors import InputError, first_line, printable
from vpintegrator.maps import Map
from vpintegrator.maps.map import optional

_SAME = (
    *("name", "title", "description", "kind", "order", "dim", "window", "prediction_window"),
    *("differentiable", "system", "structure", "step", "domain"),
)
_LONGEST = 100  # characters of a reason
_TRIED = 10  # windows that fail, and none that does not, after which the others are not tried


class GuardedMap(Map):
    """A map of the user, whose states and derivatives are NaN where it raises an exception.

    States of a batch that fails are mapped one by one, so that a trajectory does not end with
    another.

    Parameters
    ----------
    guarded
        The map.

    Attributes
    ----------
    original
        The map, or that of which it is machine code.
    failure
        Reason of the first failure; empty while there is none.
    """

    def __init__(self, guarded: Map) -> None:
        self.guarded = guarded
        self.failure = ""
        self.original = getattr(guarded, "original", guarded)
        for name in _SAME:
            setattr(self, name, getattr(guarded, name))

    def __getattr__(self, name: str) -> Any:
        if "guarded" not in self.__dict__:  # a copy that is being made
            raise AttributeError(name)
        value = getattr(self.guarded, name)
        if name == "at_step":
            return lambda *arguments: GuardedMap(value(*arguments))
        return value

    # some maps know these only when they have run
    @property
    def attention_summary(self) -> str:  # type: ignore[override]
        """Sentence on the attention of the map."""
        return self.guarded.attention_summary

    @property
    def machine_epsilon(self) -> float:  # type: ignore[override]
        """Relative rounding error of the map."""
        return self.guarded.machine_epsilon

    @property
    def derivative_epsilon(self) -> float:
        """Relative error of the derivative of the map."""
        return self.guarded.derivative_epsilon

    @property
    def remark(self) -> str:  # type: ignore[override]
        """Remark of the map, and the reason why it failed."""
        return ", ".join(filter(None, [self.guarded.remark, self.failure]))

    def map(self, windows: np.ndarray, parameters: Any = None) -> np.ndarray:
        return self._apply(self.guarded.map, windows.shape, windows, *optional(parameters))

    def derivative(self, windows: np.ndarray, parameters: Any = None) -> np.ndarray:
        size = self.window * self.dim
        shape = (len(windows), size, size)
        return self._apply(self.guarded.derivative, shape, windows, *optional(parameters))

    def tangent(
        self, windows: np.ndarray, vectors: np.ndarray, parameters: Any = None
    ) -> np.ndarray:
        shape = (len(windows), *vectors.shape[-2:])
        return self._apply(self.guarded.tangent, shape, windows, vectors, *optional(parameters))

    def advance(
        self, windows: np.ndarray, steps: int, *, chunk: int = 1000, parameters: Any = None
    ) -> Iterator[np.ndarray]:
        windows = np.array(windows, dtype=np.float64)
        done = 0
        try:
            for states in self.guarded.advance(windows, steps, chunk=chunk, parameters=parameters):
                windows = np.concatenate([windows, states], axis=1)[:, -self.window :]
                done += states.shape[1]
                yield states
        except Exception as error:  # whatever a map of the user raises
            self._fail(error, f" at step {self.window + done}")
        if done < steps:
            yield from super().advance(windows, steps - done, chunk=chunk, parameters=parameters)

    def _apply(
        self,
        function: Callable[..., np.ndarray],
        shape: tuple[int, ...],
        windows: np.ndarray,
        *arguments: Any,
    ) -> np.ndarray:
        """Return images of windows, NaN for windows that fail."""
        try:
            return function(windows, *arguments)
        except Exception as error:
            self._fail(error)
        images = np.full(shape, np.nan)
        failed = 0
        each = [x if np.ndim(x) == 3 and len(x) == len(windows) else None for x in arguments]
        for n in np.flatnonzero(np.isfinite(windows).all(axis=(1, 2))):
            row = (a if x is None else x[n : n + 1] for a, x in zip(arguments, each, strict=True))
            with suppress(Exception):
                images[n] = function(windows[n : n + 1], *row)[0]
            failed += not np.isfinite(images[n]).any()
            if failed >= _TRIED and not np.isfinite(images).any():
                break
        return images

    def _fail(self, error: Exception, place: str = "") -> None:
        if not self.failure:
            reason = first_line(error)
            if not isinstance(error, InputError):
                reason = f"raises {type(error).__name__}{place}: {reason}"
            self.failure = printable(reason, _LONGEST)


def unguarded(map: Map) -> Map:
    """Return the map itself."""
    return map.guarded if isinstance(map, GuardedMap) else map


def warn_of_failures(maps: Mapping[str, GuardedMap]) -> None:
    """Warn of maps that failed."""
    for name, map in maps.items():
        if map.failure:
            warnings.warn(
                f"{name} has failed, and what it did not give is missing: {map.failure}",
                stacklevel=3,
            )
