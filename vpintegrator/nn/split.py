"""Division of the components of a state into blocks that couplings update in turn."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch

from vpintegrator.arguments import plain, whole
from vpintegrator.errors import InputError
from vpintegrator.nn.symmetry import TOLERANCE

Blocks = str | Sequence[Sequence[int]]


def as_blocks(split: Blocks, dim: int, parameters: int = 0) -> list[list[int]]:
    """Return blocks of component indices that together are a permutation of 0 ... dim - 1.

    Parameters
    ----------
    split : "coordinates", "halves" or list of lists of int
        Every component by itself; first half and second half, as for (q, p); or the blocks.
    parameters : int
        Number of parameters that functions read: with any, one block will do.

    Raises
    ------
    InputError
        If an odd number of components is halved, too few blocks result, or the blocks are no
        partition.
    """
    half = whole("dim", dim) // 2
    blocks: list[list[int]]
    if split == "coordinates":
        blocks = [[index] for index in range(dim)]
    elif split == "halves":
        if dim % 2:
            raise InputError(
                f'split = "halves" needs an even number of components that move, not {dim}'
            )
        blocks = [[*range(half)], [*range(half, dim)]]
    elif isinstance(split, str):
        raise InputError(f"split must be coordinates, halves or a list of blocks, not {split!r}")
    else:
        blocks = _given_blocks(split, dim)
    if len(blocks) < (1 if parameters else 2):
        raise InputError(
            f"a coupling needs at least two blocks of components, but split = {split!r} gives "
            f"{len(blocks)} for dim = {dim}"
        )
    return blocks


def parse_split(text: str) -> Blocks:
    """Read a split from text: its name, or blocks such as ``0,1|2`` or ``0-30|31-61``.

    ``|`` stands between blocks, ``,`` between indices, and ``0-30`` is short for 0,1,...,30.

    Raises
    ------
    InputError
        If the text is neither.
    """
    text = text.strip()
    if text in ("coordinates", "halves"):
        return text
    blocks = []
    for block in text.split("|"):
        matches = [
            re.fullmatch(r"([0-9]{1,6})(?:-([0-9]{1,6}))?", p.strip()) for p in block.split(",")
        ]
        if None in matches:
            raise InputError(
                f"split must be coordinates, halves or blocks of indices such as 0,1|2 or 0-2|3-5, "
                f"not {text!r}"
            )
        ranges = [(int(m[1]), int(m[2] or m[1])) for m in matches if m is not None]
        blocks.append([index for first, last in ranges for index in range(first, last + 1)])
    return blocks


def _given_blocks(split: Any, dim: int) -> list[list[int]]:
    try:
        blocks = [[plain("split", index, (int,)) for index in block] for block in split]
    except (TypeError, ValueError):
        raise InputError(f"split must be a list of lists of indices, not {split!r}") from None
    indices = [index for block in blocks for index in block]
    if len(indices) != dim or sorted(indices) != list(range(dim)) or [] in blocks:
        raise InputError(
            f"split = {blocks} must hold each of the component indices 0 ... {dim - 1} once, in "
            "blocks that are not empty"
        )
    return blocks


def others(block: list[int], dim: int) -> list[int]:
    """Return the components that are not in the block, in order."""
    members = set(block)
    return [index for index in range(dim) if index not in members]


def check_compatible(blocks: list[list[int]], group: torch.Tensor) -> None:
    """Raise InputError unless every symmetry maps every block into itself.

    Otherwise the average of a coupling over the group is not a coupling.
    """
    if reason := mixing(blocks, group):
        raise InputError(reason)


def mixing(blocks: list[list[int]], group: torch.Tensor) -> str | None:
    """Return which blocks the symmetries (element, dim, dim) mix, in a sentence, or None."""
    if len(group) == 1:  # the identity
        return None
    number = torch.empty(group.shape[-1], dtype=torch.long)
    for index, block in enumerate(blocks):
        number[block] = index
    connected = (group.abs() > TOLERANCE).any(0)  # (dim, dim)
    mixed = (connected & (number.unsqueeze(0) != number.unsqueeze(1))).nonzero()
    if not len(mixed):
        return None
    block = blocks[int(number[mixed].min())]
    return (
        f"the symmetries mix the components {block} with {others(block, group.shape[-1])}, so "
        "couplings that update them in turn cannot respect the symmetries; choose a split "
        "whose blocks every symmetry maps to themselves, or give fewer symmetries"
    )


def placement(block: list[int], dim: int) -> torch.Tensor:
    """Return the 0/1 matrix (len(block), dim) that places the components of a block in a state."""
    return torch.nn.functional.one_hot(torch.tensor(block), dim).double()
