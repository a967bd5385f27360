"""How a coupling divides the components of a state into blocks that are updated in turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from vpintegrator.errors import InputError
from vpintegrator.nn.checks import positive
from vpintegrator.nn.symmetry import TOLERANCE

Split = str | Sequence[Sequence[int]]


def as_blocks(split: Split, dim: int) -> list[list[int]]:
    """Blocks of component indices that together are a permutation of 0 ... dim - 1.

    Parameters
    ----------
    split : "coordinates", "halves" or list of lists of int
        Every component by itself; first half and second half, as for (q, p); or the blocks.

    Raises
    ------
    InputError
        If dim is odd for halves, fewer than two blocks result, or the blocks are no partition.
    """
    positive("dim", dim)
    blocks: list[list[int]]
    if split == "coordinates":
        blocks = [[index] for index in range(dim)]
    elif split == "halves":
        if dim % 2:
            raise InputError(f'split = "halves" needs an even dim, not dim = {dim}')
        blocks = [list(range(dim // 2)), list(range(dim // 2, dim))]
    elif isinstance(split, str):
        raise InputError(f"split must be coordinates, halves or a list of blocks, not {split!r}")
    else:
        blocks = _given_blocks(split, dim)
    if len(blocks) < 2:
        raise InputError(
            f"a coupling needs at least two blocks of components, but split = {split!r} gives "
            f"{len(blocks)} for dim = {dim}"
        )
    return blocks


def as_argument(split: Split, dim: int) -> Split:
    """A split as it can be stored as JSON: its name, or lists of integers."""
    return split if isinstance(split, str) else as_blocks(split, dim)


def _given_blocks(split: Any, dim: int) -> list[list[int]]:
    try:
        blocks = [[int(index) for index in block] for block in split]
    except (TypeError, ValueError):
        raise InputError(f"split must be a list of lists of indices, not {split!r}") from None
    if sorted(index for block in blocks for index in block) != list(range(dim)) or [] in blocks:
        raise InputError(
            f"split = {blocks} must hold each of the component indices 0 ... {dim - 1} once, in "
            "blocks that are not empty"
        )
    return blocks


def others(block: list[int], dim: int) -> list[int]:
    """The components that are not in the block, in order."""
    return [index for index in range(dim) if index not in block]


def check_compatible(blocks: list[list[int]], group: torch.Tensor) -> None:
    """InputError unless every symmetry maps every block into itself.

    Only then does the average over the group of a coupling function remain a coupling.
    """
    for block in blocks:
        rest = others(block, group.shape[-1])
        mixing = torch.cat(
            [group[:, block][:, :, rest].flatten(), group[:, rest][:, :, block].flatten()]
        )
        if mixing.numel() and mixing.abs().max() > TOLERANCE:
            raise InputError(
                f"the symmetries mix the components {block} with {rest}, so couplings that update "
                f"them in turn cannot respect the symmetries; choose a split whose blocks every "
                f"symmetry maps to themselves, or give fewer symmetries"
            )


def placement(block: list[int], dim: int) -> torch.Tensor:
    """The 0/1 matrix (len(block), dim) that puts block components at their places in a state."""
    return torch.eye(dim, dtype=torch.float64)[block]
