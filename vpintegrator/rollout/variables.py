"""Descriptions of results: variables of stored rollouts, and columns of tables.

A variable is an array with named axes, or a number, in a group of an HDF5 file that xarray, netCDF
tools and h5py open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import h5py
import numpy as np

from vpintegrator.errors import printable
from vpintegrator.storage.hdf5 import fill
from vpintegrator.storage.reading import StoredGroup

TRAJECTORY = ("trajectory",)
SERIES = ("trajectory", "time")


@dataclass(frozen=True)
class Variable:
    """Array or number in a group of a file.

    Attributes
    ----------
    name
        Name of the measurement, and of its array in the file unless ``stored_as`` is given.
    title
        Description of the measurement.
    dims
        Its axes. In a rollout file each group has ``"trajectory"``, ``"time"`` (the stored times)
        and ``"component"``. A variable whose one axis has its own name is the coordinate of that
        axis; an axis without one gets numbers. A number, without axes, becomes an attribute of the
        group.
    stored_as
        Its name in the file, where it is another.
    required
        Whether a file without the variable is damaged. A missing optional variable was not
        measured.
    whole
        Whether the numbers of the array are whole.
    values, attributes
        Numbers to write, and further attributes of the array.
    """

    name: str
    title: str
    dims: tuple[str, ...] = ()
    stored_as: str = ""
    required: bool = False
    whole: bool = False
    values: Any = None
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Name of the measurement in the file."""
        return self.stored_as or self.name

    def write(self, group: h5py.Group) -> None:
        """Write a number as an attribute of the group, an array as a dataset with its axes."""
        key, values = self.key, self.values
        if not self.dims:
            group.attrs[key] = values
            return
        chunked = self.dims[:2] == SERIES  # chunked and checksummed, as the states are
        dataset = fill(group, key, values) if chunked else group.create_dataset(key, data=values)
        dataset.attrs["long_name"] = printable(self.title)
        if self.dims == (key,):
            dataset.make_scale(key)
        else:
            for dimension, axis, size in zip(dataset.dims, self.dims, dataset.shape, strict=True):
                if axis not in group:
                    title = f"number of the {axis.rpartition('_')[2]}"
                    Variable(axis, title, (axis,), values=np.arange(size)).write(group)
                dimension.attach_scale(group[axis])
        dataset.attrs.update(self.attributes)

    def read(self, group: StoredGroup, sizes: Mapping[str, int]) -> Any:
        """Return the numbers in a group, None if they were not measured.

        ``sizes`` holds the lengths of the axes that are known.

        Raises
        ------
        InputError
            If they are damaged, do not fit, or are required and missing.
        """
        if not self.dims:
            default: Any = {} if self.required else {"default": None}
            return group.number(self.key, **default, finite=False)
        if not self.required and self.key not in group:
            return None
        axes = [sizes.get(name) for name in self.dims]
        return group.array(self.key, axes, "i" if self.whole else "f")


def read_variables(
    group: StoredGroup, variables: Iterable[Variable], sizes: Mapping[str, int]
) -> dict[str, Any]:
    """Return the numbers of variables in a group by their names; see :meth:`Variable.read`."""
    return {variable.name: variable.read(group, sizes) for variable in variables}


@dataclass(frozen=True)
class Column:
    """A column of the table.

    Attributes
    ----------
    title
        The key in the rows of :meth:`Report.table`, and the title in CSV and JSON.
    value
        Its value for a method: a number, word, truth value, or None.
    style
        Format in printed tables: ``"number"``; ``"error"``, one of trajectories, which is not known
        below the accuracy of the reference; ``"words"``; ``"count"`` of the orbits; ``"short"``,
        a number of three digits; ``"duration"``; ``"drift"``, a number with its sign if nothing
        diverged; ``"failure"``, a time that may not be reached; ``"kept"``, an error behind the
        value of ``beside``; ``"hidden"`` for CSV and JSON alone.
    header
        Its title in two lines, by default split before the last word.
    rank
        Order in which a printed table that is too wide drops columns; a column with None is never
        dropped.
    place
        Printed tables are ordered by this first, and then as the diagnostics are.
    beside
        Title of a further column that is printed in the same cell.
    promised
        Properties of methods that exclude a defect in this column. If a method has one of them and
        yet a defect, the column is always printed.
    """

    title: str
    value: Callable[[Any], Any]
    style: str = "number"
    header: tuple[str, str] | None = None
    rank: float | None = None
    place: int = 4
    beside: str = ""
    promised: tuple[str, ...] = ()
