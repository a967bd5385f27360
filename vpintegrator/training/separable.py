"""Blocks of components that do not move one another, by which a vector field is split."""

from __future__ import annotations

import numpy as np
import torch

from vpintegrator.dynamics import System
from vpintegrator.nn.symmetry import TOLERANCE


def separable_blocks(
    system: System, states: np.ndarray, group: torch.Tensor, clock: bool = False
) -> list[list[int]] | None:
    """As few blocks as are found of components of which none drives itself or another of its own.

    Moving along such a block with all others held still is a shear, and exact in one step; of all
    of them the vector field is the sum.

    Parameters
    ----------
    system
        Its equations are known, or there are none to go by.
    states
        Where the Jacobian is looked at, (state, dim).
    group
        Symmetries (element, dim, dim), which are to take every block to itself.
    clock
        Whether the last component is a time that no shear moves: a block by itself.

    Returns
    -------
    list of list of int, or None
        None where a component drives itself, or one that a symmetry takes it to, or where the
        equations are not known.
    """
    if not system.has_formulas or system.is_discrete:
        return None
    driven = (np.abs(system.jacobian(states)) > 0).reshape(-1, system.dim, system.dim).any(0)
    linked = (group.abs() > TOLERANCE).any(0).numpy()
    conditions = [] if system.family is None else system.family.places
    conditions = [system.dim - 1] if clock else conditions
    blocks: list[list[int]] = []
    placed: set[int] = {*conditions}
    for component in range(system.dim):
        if component in placed:
            continue
        # what a group links is linked by one of its elements: no chains need to be followed
        alike = [int(index) for index in np.flatnonzero(linked[:, component] | linked[component])]
        if driven[np.ix_(alike, alike)].any():
            return None
        placed.update(alike)
        for block in blocks:
            both = [*block, *alike]
            if not driven[np.ix_(both, both)].any():
                block.extend(alike)
                break
        else:
            blocks.append(alike)
    if conditions:  # brackets of all others depend on them
        blocks.append(conditions)
    return [sorted(block) for block in blocks] if len(blocks) > 1 else None
