"""What an optimizer writes down, and reads back without trusting it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import torch

from vpintegrator.errors import InputError

Tensors = dict[str, torch.Tensor]
LARGEST_SIZE = 2**53  # the whole numbers that a float holds


@dataclass(frozen=True)
class State:
    """Tensors and numbers from which an optimizer goes on exactly.

    They stay as they are while training goes on. Read back from a file they may be anything, so
    they are taken by the methods, which raise InputError where something else is expected.

    Attributes
    ----------
    tensors, numbers
        By name.
    source
        Where they come from, for messages.
    """

    tensors: Tensors = field(default_factory=dict)
    numbers: dict[str, float] = field(default_factory=dict)
    source: str = "the state of an optimizer"

    def tensor(self, name: str, like: torch.Tensor, *shape: int) -> torch.Tensor:
        """One of the dtype and on the device of ``like``, of its shape or another."""
        if name not in self.tensors:
            raise self.damaged(f"{name} is missing")
        tensor = self.tensors[name]
        check_tensor(f"{self.source} is damaged: {name}", tensor, like.dtype, shape or like.shape)
        return tensor.to(like.device)

    def number(self, name: str, least: float = -math.inf, *, finite: bool = True) -> float:
        """A number of at least ``least``."""
        value = self.numbers.get(name)
        if value is None:
            raise self.damaged(f"{name} is missing")
        if (finite and not math.isfinite(value)) or value < least:
            raise self.damaged(f"{name} = {value} is out of range")
        return value

    def whole(self, name: str, least: int, most: int) -> int:
        """A whole number."""
        value = self.number(name, least)
        if value > most or value != int(value):
            raise self.damaged(f"{name} = {value} is out of range")
        return int(value)

    def only(self, tensors: Iterable[str], numbers: Iterable[str]) -> None:
        """Make sure that there is nothing else."""
        unknown = (set(self.tensors) - set(tensors)) | (set(self.numbers) - set(numbers))
        if unknown:
            raise self.damaged(f"{min(unknown)} has no meaning")

    def damaged(self, what: str) -> InputError:
        """The error to raise."""
        return InputError(f"{self.source} is damaged: {what}; start afresh without resuming")


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
