"""Descriptions of results: variables of stored rollouts, and columns of tables.

A variable is an array with named axes, or a number, in a group of an HDF5 file that xarray, netCDF
tools and h5py open.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import h5py
import numpy as np

from vpintegrator.dynamics import System
from vpintegrator.errors import InputError, printable
from vpintegrator.storage.hdf5 import fill, write_attributes
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
    attribute_of
        Array that has a number as its attribute, instead of the group.
    length
        Number of numbers, where the attribute has several.
    attributes
        Further attributes of the array.
    """

    name: str
    title: str
    dims: tuple[str, ...] = ()
    stored_as: str = ""
    required: bool = False
    whole: bool = False
    attribute_of: str = ""
    length: int = 0
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Name of the measurement in the file."""
        return self.stored_as or self.name

    def named(self, words: Mapping[str, Any]) -> Variable:
        """Return the variable with words for the braces in its texts."""
        return replace(
            self,
            title=self.title.format_map(words),
            dims=tuple(axis.format_map(words) for axis in self.dims),
            stored_as=self.key.format_map(words),
            attributes={key: text.format_map(words) for key, text in self.attributes.items()},
        )

    def write(self, group: h5py.Group, values: Any, system: System | None = None) -> None:
        """Write a number as an attribute, an array as a dataset with its axes, nothing for None."""
        if values is None:
            return
        if not self.dims:
            item = group[self.attribute_of] if self.attribute_of else group
            write_attributes(item, {self.key: values})
            return
        # and checksummed, as the states are
        key = self.key
        chunked = self.dims[:2] == SERIES
        dataset = fill(group, key, values) if chunked else group.create_dataset(key, data=values)
        write_attributes(dataset, {"long_name": printable(self.title)})
        if self.dims == (key,):
            dataset.make_scale(key)
        else:
            for dimension, axis, size in zip(dataset.dims, self.dims, dataset.shape, strict=True):
                if axis not in group:
                    title = f"number of the {axis.rpartition('_')[2]}"
                    Variable(axis, title, (axis,)).write(group, np.arange(size))
                dimension.attach_scale(group[axis])
        write_attributes(dataset, self.attributes)

    def read(self, group: StoredGroup, sizes: dict[str, int], system: System | None = None) -> Any:
        """Return the numbers in a group, None if they were not measured.

        ``sizes`` holds the lengths of the axes that are known, and gets those of the array.

        Raises
        ------
        InputError
            If they are damaged, do not fit, or are required and missing.
        """
        if not self.dims:
            owner = group.labelled(self.attribute_of) if self.attribute_of else group
            default: Any = {} if self.required else {"default": None}
            if self.length:
                return owner.numbers(self.key, self.length, **default)
            return owner.number(self.key, **default, finite=False)
        if not self.required and self.key not in group:
            return None
        axes = [sizes.get(name) for name in self.dims]
        values = group.array(self.key, axes, "i" if self.whole else "f")
        if self.dims[0].endswith("trajectory") and not len(values):
            raise InputError(f"{group}: {self.key} is of no trajectory")
        sizes |= zip(self.dims, values.shape, strict=True)
        return values


@dataclass(frozen=True)
class Measurement:
    """Measurement that is an object of several variables, or such objects by name.

    Attributes
    ----------
    name
        Name of the measurement.
    variables
        Variables of an object. Of several objects their texts hold words in braces: the ``{name}``
        of the object, its ``{key}`` in the file, and values of ``split``.
    make
        Object of the values of its variables by name.
    split
        The inverse of ``make``.
    keys
        Keys of the objects by their names, for a system; None for a single object.
    """

    name: str
    variables: tuple[Variable, ...]
    make: Callable[..., Any]
    split: Callable[[Any], Mapping[str, Any]] = vars
    keys: Callable[[System], Mapping[str, str]] | None = None

    def write(self, group: h5py.Group, values: Any, system: System) -> None:
        """Write the object or the objects; None for one that was not measured."""
        for name, key in self._keys(system).items():
            value = values.get(name) if self.keys else values
            parts = {} if value is None else self.split(value)
            for variable in self.variables if parts else ():
                words = {**parts, "name": name, "key": key}
                variable.named(words).write(group, parts[variable.name])

    def read(self, group: StoredGroup, sizes: dict[str, int], system: System) -> Any:
        """Return the object, None if it was not measured, or the objects that were."""
        objects = {}
        for name, key in self._keys(system).items():
            words = defaultdict(str, name=name, key=key)
            named = [variable.named(words) for variable in self.variables]
            if named[0].required or named[0].key in group:
                objects[name] = self.make(**read_variables(group, named, sizes))
        return objects if self.keys else objects.get("")

    def _keys(self, system: System) -> Mapping[str, str]:
        return self.keys(system) if self.keys else {"": ""}


def read_variables(
    group: StoredGroup, variables: Iterable[Variable], sizes: dict[str, int]
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
        Its value for a method: a number, word, truth value, or None. It is the name of a number in
        the summary, name and key of one by name, or a function of the summary.
    style
        Format in printed tables: ``"number"``; ``"error"``, one of trajectories, which is not known
        below the accuracy of the reference; ``"words"``; ``"count"`` of the orbits; ``"short"``,
        a number of three digits; ``"duration"``; ``"drift"``, a number with its sign;
        ``"failure"``, a time that may not be reached; ``"kept"``, an error behind the
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
    value: str | tuple[str, str] | Callable[[Any], Any]
    style: str = "number"
    header: tuple[str, str] | None = None
    rank: float | None = None
    place: int = 4
    beside: str = ""
    promised: tuple[str, ...] = ()

    def cell(self, summary: Any) -> Any:
        """Return the value for a method."""
        if isinstance(self.value, tuple):
            name, key = self.value
            return getattr(summary, name).get(key)
        return getattr(summary, self.value) if isinstance(self.value, str) else self.value(summary)
