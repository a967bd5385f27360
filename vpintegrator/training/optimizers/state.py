"""State of an optimizer in checkpoints, checked when it is read."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch

from vpintegrator.errors import InputError

Tensors = dict[str, torch.Tensor]
Nested = dict[str, Any]  # values: tensors, numbers, lists of tensors, None, nested dicts
LARGEST_SIZE = 2**53  # largest whole number up to which a float is exact


@dataclass(frozen=True)
class State:
    """Tensors and numbers from which an optimizer goes on exactly.

    The state does not change while training continues. A state from a file may hold anything;
    methods that read it raise InputError for unexpected content.

    Attributes
    ----------
    tensors, numbers
        Tensors and numbers by name; dots in a name separate the levels of nesting. Entries of a
        list are named by their index; the number of the list's name is its length.
    source
        Source of the state, for messages.
    within
        Prefix of the names, with its dot.
    taken
        Names that were read so far.
    """

    tensors: Tensors = field(default_factory=dict)
    numbers: dict[str, float] = field(default_factory=dict)
    source: str = "the state of an optimizer"
    within: str = ""
    taken: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, nested: Nested) -> State:
        """Flatten the nested state of an optimizer."""
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
        """Return the part of the state under a name; it is false if empty."""
        within = f"{self.within}{name}."
        return State(self.tensors, self.numbers, self.source, within, self.taken)

    def __bool__(self) -> bool:
        return any(name.startswith(self.within) for name in (*self.tensors, *self.numbers))

    def tensor(self, name: str, like: torch.Tensor, *shape: int) -> torch.Tensor:
        """Return a tensor with the dtype and device of ``like``, and its shape or ``shape``."""
        tensor = self._take(self.tensors, name)
        wanted = shape or like.shape
        check_tensor(f"{self.source} is damaged: {self.within}{name}", tensor, like.dtype, wanted)
        return tensor.to(like.device)

    def tensors_of(self, name: str, like: torch.Tensor, length: int) -> list[torch.Tensor]:
        """Return a list of tensors."""
        self.whole(name, length, length)
        return [self.tensor(f"{name}.{i}", like) for i in range(length)]

    def scalar(self, name: str, like: torch.Tensor) -> torch.Tensor | float:
        """Return a tensor or a number, whichever it was, finite or not."""
        if self.within + name in self.tensors:
            return self.tensor(name, like)
        return self.number(name, finite=False)

    def number(self, name: str, least: float = -math.inf, *, finite: bool = True) -> float:
        """Return a number of at least ``least``."""
        value = self._take(self.numbers, name)
        if (finite and not math.isfinite(value)) or value < least:
            raise self.damaged(f"{self.within}{name} = {value} is out of range")
        return value

    def whole(self, name: str, least: int, most: int) -> int:
        """Return a whole number."""
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
        """Return the error to raise."""
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
    """Return the tensor, if it is of a dtype and shape.

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
