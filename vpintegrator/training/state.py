"""What an optimizer writes down, and reads back without trusting it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch

from vpintegrator.errors import InputError

Tensors = dict[str, torch.Tensor]
Nested = dict[str, Any]  # of tensors, numbers, lists of tensors, None, and of such again
LARGEST_SIZE = 2**53  # the whole numbers that a float holds


@dataclass(frozen=True)
class State:
    """Tensors and numbers from which an optimizer goes on exactly.

    They stay as they are while training goes on. Read back from a file they may be anything, so
    they are taken by the methods, which raise InputError where something else is expected.

    Attributes
    ----------
    tensors, numbers
        By name; a name of several parts, with dots, stands for what is within one another. The
        entries of a list have numbers for names, and its length is a number of its name.
    source
        Where they come from, for messages.
    within
        The part of the names that is left out, with its dot.
    taken
        The names that were asked for so far.
    """

    tensors: Tensors = field(default_factory=dict)
    numbers: dict[str, float] = field(default_factory=dict)
    source: str = "the state of an optimizer"
    within: str = ""
    taken: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, nested: Nested) -> State:
        """That of an optimizer, made flat."""
        state = cls()

        def add(name: str, value: Any) -> None:
            if isinstance(value, torch.Tensor):
                state.tensors[name] = value
            elif isinstance(value, dict | list):
                entries = value.items() if isinstance(value, dict) else enumerate(value)
                if isinstance(value, list):
                    state.numbers[name] = len(value)
                for key, entry in entries:
                    add(f"{name}.{key}", entry)
            elif value is not None:
                state.numbers[name] = value

        for name, value in nested.items():
            add(name, value)
        return state

    def part(self, name: str) -> State:
        """What is within a name; it is false if there is nothing."""
        within = f"{self.within}{name}."
        return State(self.tensors, self.numbers, self.source, within, self.taken)

    def __bool__(self) -> bool:
        return any(name.startswith(self.within) for name in (*self.tensors, *self.numbers))

    def tensor(self, name: str, like: torch.Tensor, *shape: int) -> torch.Tensor:
        """One of the dtype and on the device of ``like``, of its shape or another."""
        tensor = self._take(self.tensors, name)
        wanted = shape or like.shape
        check_tensor(f"{self.source} is damaged: {self.within}{name}", tensor, like.dtype, wanted)
        return tensor.to(like.device)

    def tensors_of(self, name: str, like: torch.Tensor, length: int) -> list[torch.Tensor]:
        """A list of tensors."""
        self.whole(name, length, length)
        return [self.tensor(f"{name}.{i}", like) for i in range(length)]

    def scalar(self, name: str, like: torch.Tensor) -> torch.Tensor | float:
        """A tensor or a number, whichever it was, finite or not."""
        if self.within + name in self.tensors:
            return self.tensor(name, like)
        return self.number(name, finite=False)

    def number(self, name: str, least: float = -math.inf, *, finite: bool = True) -> float:
        """A number of at least ``least``."""
        value = self._take(self.numbers, name)
        if (finite and not math.isfinite(value)) or value < least:
            raise self.damaged(f"{self.within}{name} = {value} is out of range")
        return value

    def whole(self, name: str, least: int, most: int) -> int:
        """A whole number."""
        value = self.number(name, least)
        if value > most or value != int(value):
            raise self.damaged(f"{self.within}{name} = {value} is out of range")
        return int(value)

    def all_taken(self) -> None:
        """Make sure that there is nothing else."""
        unknown = {*self.tensors, *self.numbers} - self.taken
        if unknown:
            raise self.damaged(f"{min(unknown)} has no meaning")

    def damaged(self, what: str) -> InputError:
        """The error to raise."""
        return InputError(f"{self.source} is damaged: {what}; start afresh without resuming")

    def _take(self, found: dict[str, Any], name: str) -> Any:
        name = self.within + name
        if name not in found:
            raise self.damaged(f"{name} is missing")
        self.taken.add(name)
        return found[name]


def check_tensor(
    what: str, tensor: torch.Tensor, dtype: torch.dtype, shape: Iterable[int]
) -> torch.Tensor:
    """The tensor, if it is of a dtype and shape.

    Raises
    ------
    InputError
        Otherwise.
    """
    if tensor.dtype != dtype or tuple(tensor.shape) != tuple(shape):
        raise InputError(
            f"{what} is {_words(tensor.dtype, tensor.shape)} instead of {_words(dtype, shape)}"
        )
    return tensor


def _words(dtype: torch.dtype, shape: Iterable[int]) -> str:
    return f"{str(dtype).removeprefix('torch.')} of shape {tuple(shape)}"
