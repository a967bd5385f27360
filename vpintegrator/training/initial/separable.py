"""Splitting of a vector field by blocks of components with zero diagonal Jacobian block."""

from __future__ import annotations

import numpy as np
import torch

from vpintegrator.dynamics import System
from vpintegrator.nn.symmetry import TOLERANCE


def separable_blocks(
    system: System, states: np.ndarray, group: torch.Tensor, explicit_time: bool = False
) -> list[list[int]] | None:
    """Greedily partition the components into blocks whose diagonal Jacobian block is zero.

    The motion of one block with the other blocks held fixed is a shear, which one step solves
    exactly. The vector field is the sum of these motions.

    Parameters
    ----------
    system
        System; the partition needs its equations as formulas.
    states
        States at which the Jacobian is evaluated, (state, dim).
    group
        Symmetries (element, dim, dim) that must map every block to itself.
    explicit_time
        Whether the last component is a time, which no shear moves and which is its own block.

    Returns
    -------
    list of list of int, or None
        None if a component drives itself or one of its images under the symmetries, or if the
        equations are not known.
    """
    if not system.has_formulas or system.is_discrete:
        return None
    driven = (np.abs(system.jacobian(states)) > 0).reshape(-1, system.dim, system.dim).any(0)
    linked = (group.abs() > TOLERANCE).any(0).numpy()
    conditions = [] if system.family is None else system.family.places
    conditions = [system.dim - 1] if explicit_time else conditions
    blocks: list[list[int]] = []
    placed: set[int] = {*conditions}
    for component in range(system.dim):
        if component in placed:
            continue
        # components linked by a group are linked by one of its elements: no chains to follow
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
