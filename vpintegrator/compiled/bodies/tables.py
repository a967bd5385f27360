"""Tables that a library of shears reads: components of each cluster, and places of weights."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vpintegrator.compiled.bodies.shears import Shear

_LANES = 64  # bytes of the widest vectors
_ROWS = 1 << 19  # bytes of derivatives of the rows of a Jacobian that are computed together
_FEWEST, _MOST = 4, 32  # such rows


class _Potential(ctypes.Structure):
    """Structure of the C++ code, as are the classes below."""

    _fields_ = tuple((name, ctypes.c_long) for name in ("kind", "weights", "constants", "first"))


_TABLES = ("read", "moved", "sign", "factor", "read_by_lanes", "moved_by_lanes")
_TABLES_OF_LANES = ("read_from", "moved_from", "sign_by_lanes", "factor_by_lanes")


class _Shear(ctypes.Structure):
    _fields_ = (
        ("potential", ctypes.c_long),
        ("clusters", ctypes.c_long),
        *((name, ctypes.c_void_p) for name in (*_TABLES, *_TABLES_OF_LANES)),
    )


_NUMBERS = ("dim", "outputs", "count", "potentials", "narrow", "trained", "most", "widest", "rows")
_ARRAYS = ("shears", "potential", "place", "row", "shift", "scale", "inverse")


class _Shears(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_long) for name in _NUMBERS),
        *((name, ctypes.c_void_p) for name in _ARRAYS),
    )


@dataclass(frozen=True)
class PlacedPotential:
    """Places of a potential's function, weights, constants and derivatives.

    Attributes
    ----------
    kind
        Number of the potential's function.
    weights, constants, first
        First place among all weights, all constants, and all derivatives by trained weights.
    size, outputs, trained
        Components that a cluster reads and moves, and number of trained weights.
    """

    kind: int
    weights: int
    constants: int
    first: int
    size: int
    outputs: int
    trained: int


class Tables:
    """The tables of a model, in memory for as long as this object lives.

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
    dimension
        Components of a body.
    lanes
        Numbers in a vector.
    narrow
        Whether lanes are clusters, for one trajectory; else they are trajectories.

    Attributes
    ----------
    address
        Address of the structure that the library takes.
    """

    def __init__(
        self,
        shears: Sequence[Shear],
        potentials: Sequence[int],
        placed: Sequence[PlacedPotential],
        rows: np.ndarray,
        normalisation: tuple[np.ndarray, np.ndarray],
        *,
        dimension: int,
        lanes: int,
        narrow: bool,
    ) -> None:
        shift, scale = normalisation
        self._real, self._lanes, self._narrow = scale.dtype, lanes, narrow
        self._arrays: dict[bytes, np.ndarray] = {}
        self._kept: list[object] = []
        dim = len(scale)
        # bodies side by side, so that those of neighbouring clusters are too
        place = np.argsort(np.arange(dim).reshape(2, -1, dimension).swapaxes(1, 2).ravel())
        found = [self._shear(s, n, place) for s, n in zip(shears, potentials, strict=True)]
        listed = (_Shear * len(found))(*found)
        others = (_Potential * len(placed))(
            *(_Potential(p.kind, p.weights, p.constants, p.first) for p in placed)
        )
        trained = len(rows)
        share = max(trained, 1) * lanes * scale.dtype.itemsize
        together = min(max(_ROWS // share, _FEWEST), _MOST) // _FEWEST * _FEWEST
        self._structure = _Shears(
            dim,
            dim,  # outputs
            len(found),
            len(placed),
            narrow,
            trained,
            max(max(p.size, p.outputs) for p in placed),
            max(p.outputs * p.trained for p in placed),
            together,
            ctypes.addressof(listed),
            ctypes.addressof(others),
            self._integers(place),
            self._integers(rows),
            *map(self._reals, (shift, scale, 1 / scale)),
        )
        self._kept += [listed, others]

    @property
    def address(self) -> ctypes.c_void_p:
        """Address of the tables."""
        return ctypes.c_void_p(ctypes.addressof(self._structure))

    def _shear(self, shear: Shear, number: int, place: np.ndarray) -> _Shear:
        read, moved = place[shear.read], place[shear.moved]
        tables = [self._integers(read), self._integers(moved)]
        tables += [self._reals(shear.sign), self._reals(shear.factor)]
        if self._narrow:
            # the last clusters again, which then move nothing
            factor = self._by_lanes(shear.factor)
            factor.reshape(len(factor), -1, self._lanes)[-1, :, self._over(len(read)) :] = 0
            indices = [self._by_lanes(read), self._by_lanes(moved)]
            tables += map(self._integers, indices)
            tables += [self._integers(self._begins(array)) for array in indices]
            tables += [self._reals(self._by_lanes(shear.sign)), self._reals(factor)]
        return _Shear(number, len(read), *tables)

    def _over(self, clusters: int) -> int:
        """Return the number of used lanes in the last group."""
        return (clusters - 1) % self._lanes + 1

    def _by_lanes(self, table: np.ndarray) -> np.ndarray:
        """Reshape (cluster, component) to (group, component, lane)."""
        groups = -(-len(table) // self._lanes)
        last = table[-1:].repeat(groups * self._lanes - len(table), 0)
        full = np.concatenate([table, last]).reshape(groups, self._lanes, -1)
        return np.ascontiguousarray(full.swapaxes(1, 2))

    def _begins(self, indices: np.ndarray) -> np.ndarray:
        """Return the first component of those that lanes have side by side, or -1."""
        first = indices[..., :1]
        aside = (indices == first + np.arange(self._lanes)).all(-1)
        return np.where(aside, first[..., 0], -1)

    def _integers(self, array: np.ndarray) -> int:
        return self._address(array.astype(np.int32))

    def _reals(self, array: np.ndarray) -> int:
        return self._address(array.astype(self._real))

    def _address(self, array: np.ndarray) -> int:
        """Return the address of a stored copy of an array; equal arrays are stored once."""
        array = np.ascontiguousarray(array)
        kept = self._arrays.setdefault(array.dtype.str.encode() + array.tobytes(), array)
        return int(kept.ctypes.data)
