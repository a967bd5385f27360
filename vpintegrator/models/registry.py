"""Architectures by name, imported on first use.

A class of one's own joins them by ``register``, or as an entry point of an installed package::

    [project.entry-points."vpintegrator.models"]
    mine = "my_package.my_module:MyModel"
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, TypeVar

from vpintegrator.errors import InputError, nearest
from vpintegrator.models.built_in import BUILT_IN

if TYPE_CHECKING:
    from vpintegrator.models.base import Integrator

Model = TypeVar("Model", bound="type[Integrator]")

ENTRY_POINTS = "vpintegrator.models"


class Architectures(Mapping[str, "type[Integrator]"]):
    """The classes of models by their names: of this package, registered, and of entry points."""

    def __init__(self) -> None:
        self._registered: dict[str, type[Integrator]] = {}

    def __getitem__(self, name: str) -> type[Integrator]:
        if name in self._registered:
            return self._registered[name]
        if name in BUILT_IN:
            where = BUILT_IN[name]
            module = importlib.import_module(f"vpintegrator.models.{where.module}")
            return getattr(module, where.class_name)
        return self._of_entry_point(_entry_points()[name])

    def __iter__(self) -> Iterator[str]:
        return iter({**BUILT_IN, **self._registered, **_entry_points()})

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        return name in BUILT_IN or name in self._registered or name in _entry_points()

    def descriptions(self) -> dict[str, str]:
        """Return a line about each, by its name; of an entry point where it comes from."""
        lines = {name: where.description for name, where in BUILT_IN.items()}
        lines |= {name: f"from {entry.value}" for name, entry in _entry_points().items()}
        return lines | {name: own.description for name, own in self._registered.items()}

    def find(self, name: str) -> type[Integrator]:
        """Return the class of this name, or InputError with the nearest one."""
        if name not in self:
            hint = nearest(name, self) or f"; there are {', '.join(self)}"
            raise InputError(f"there is no model '{name}'{hint}")
        return self[name]

    def add(self, architecture: type[Integrator]) -> None:
        """Add a class of models, see :func:`register`."""
        from vpintegrator.models.base import Integrator

        if not (isinstance(architecture, type) and issubclass(architecture, Integrator)):
            raise InputError(f"{architecture!r} is no class of vpintegrator.models.Integrator")
        shown, name = architecture.__name__, architecture.name
        if not name:
            raise InputError(f"{shown} has no name to be found by; give it a class attribute name")
        own = architecture.__dict__
        if architecture.network is Integrator.network or (
            "__init__" in own and "Arguments" not in own
        ):
            raise InputError(
                f"{shown} cannot be built again from a file: declare its arguments in a dataclass "
                "Arguments, and build the network of them in its method network"
            )
        taken = self._registered.get(name)
        if name in BUILT_IN or (taken is not None and _place(taken) != _place(architecture)):
            raise InputError(f"there is a model '{name}' already; give {shown} another name")
        self._registered[name] = architecture

    def _of_entry_point(self, entry: EntryPoint) -> type[Integrator]:
        try:
            found = entry.load()
        except Exception as error:  # whatever another package does
            what = f"{type(error).__name__}: {error}"
            raise InputError(f"the model '{entry.name}', {entry.value}, fails: {what}") from error
        if getattr(found, "name", None) != entry.name:
            raise InputError(f"the entry point {entry.value} gives no model named '{entry.name}'")
        self.add(found)
        return found


def _place(architecture: type) -> tuple[str, str]:
    """Return module and name of a class; a class redefined there replaces the earlier one."""
    return architecture.__module__, architecture.__qualname__


ARCHITECTURES = Architectures()


def register(architecture: Model) -> Model:
    """Make a class of models known by its name: a decorator.

    It is trained, compiled, saved and loaded like those of this package. A file says its name, not
    where it is defined: import the module before a file is loaded, or make the class an entry point
    of an installed package, in the group ``vpintegrator.models``; then vp-train knows it, too.

    Parameters
    ----------
    architecture
        A subclass of ``Integrator`` with a ``name``, a ``description``, its ``Arguments`` and a
        method ``network``.

    Raises
    ------
    InputError
        If it lacks one of these, or the name is taken.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import vpintegrator as vp
    >>> @vp.models.register
    ... class Shears(vp.models.Integrator):
    ...     name = "shears"
    ...     description = "additive couplings, one after the other"
    ...
    ...     @dataclass(frozen=True, kw_only=True)
    ...     class Arguments(vp.models.ReversibleArguments):
    ...         count: int = vp.models.argument(2, "How many couplings.", least=1)
    ...
    ...     def network(self, a):
    ...         layers = [vp.nn.AdditiveCoupling(a.dim, symmetries=a.group) for _ in range(a.count)]
    ...         return vp.nn.Composition(*layers)
    >>> model = vp.models.ARCHITECTURES["shears"](dim=3, count=4)
    >>> model.structure.keeps_volume, model.arguments["count"]
    (True, 4)
    """
    ARCHITECTURES.add(architecture)
    return architecture


@cache
def _entry_points() -> dict[str, EntryPoint]:
    """Return the entry points of installed packages, without names of this package."""
    found = entry_points(group=ENTRY_POINTS)
    return {entry.name: entry for entry in found if entry.name not in BUILT_IN}
