"""Tables of shears without addresses: one array of integers and one of reals.

They can be moved, to a GPU for instance, as they are: places in them say where what is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vpintegrator.compiled.bodies.shears import Shear
from vpintegrator.compiled.bodies.tables import PlacedPotential

_HEADER = 9  # integers, see gpu/bodies.h


def flat_tables(
    shears: Sequence[Shear],
    potentials: Sequence[int],
    placed: Sequence[PlacedPotential],
    rows: np.ndarray,
    normalisation: tuple[np.ndarray, np.ndarray],
) -> tuple[np.ndarray, np.ndarray]:
    """Return the tables of a model, laid out as ``gpu/bodies.h`` has them.

    Parameters
    ----------
    shears
        The shears, in order.
    potentials
        Number of the potential of each shear.
    placed
        The potentials.
    rows
        Index of each trained weight of each potential among all trained weights.
    normalisation
        Shift and scale of the components of a state.

    Returns
    -------
    integers, reals
        Integers of 32 bits, and reals of the type of the normalisation.
    """
    shift, scale = normalisation
    integers, reals = _Array(np.dtype(np.int32), _HEADER), _Array(scale.dtype)
    listed = [
        (
            number,
            len(shear.read),
            integers.place(shear.read),
            integers.place(shear.moved),
            reals.place(shear.sign),
            reals.place(shear.factor),
            *_moves(shear, integers),
        )
        for shear, number in zip(shears, potentials, strict=True)
    ]
    others = [(p.kind, p.weights, p.constants, p.first) for p in placed]
    header = [len(shift), len(shears), len(placed)]
    header += [integers.place(np.array(table)) for table in (listed, others, rows)]
    header += [reals.place(array) for array in (shift, scale, 1 / scale)]
    whole = integers.whole()
    whole[:_HEADER] = header
    return whole, reals.whole()


def _moves(shear: Shear, integers: _Array) -> tuple[int, int, int, int]:
    """Store the clusters that move each component of a shear, in order; return count and places."""
    moved = shear.moved.T  # moves are (component of a cluster, cluster)
    order = np.argsort(shear.moved, axis=None, kind="stable")
    cluster, within = np.unravel_index(order, shear.moved.shape)
    components, first = np.unique(shear.moved.ravel()[order], return_index=True)
    start = np.append(first, moved.size)
    places = map(integers.place, (components, start, within * moved.shape[1] + cluster))
    return (len(components), *places)  # type: ignore[return-value]


class _Array:
    """Arrays one after another; equal ones are there once."""

    def __init__(self, dtype: np.dtype, first: int = 0) -> None:
        self._parts = [np.zeros(first, dtype)]
        self._places: dict[bytes, int] = {}
        self._dtype, self._size = dtype, first

    def place(self, array: np.ndarray) -> int:
        """Return the index at which an array begins, stored at first use."""
        flat = array.astype(self._dtype).ravel()
        key = flat.tobytes()
        if key not in self._places:
            self._places[key] = self._size
            self._parts.append(flat)
            self._size += flat.size
        return self._places[key]

    def whole(self) -> np.ndarray:
        """Return all arrays as one."""
        return np.concatenate(self._parts)
