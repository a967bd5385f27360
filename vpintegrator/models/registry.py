"""Architectures of this package by name, imported on first use."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from vpintegrator.errors import InputError, nearest
from vpintegrator.models.built_in import BUILT_IN

if TYPE_CHECKING:
    from vpintegrator.models.model import Model


class Architectures(Mapping[str, "type[Model]"]):
    """The classes of models by their names."""

    def __getitem__(self, name: str) -> type[Model]:
        entry = BUILT_IN[name]
        module = importlib.import_module(f"vpintegrator.models.{entry.module}")
        return getattr(module, entry.class_name)

    def __iter__(self) -> Iterator[str]:
        return iter(BUILT_IN)

    def __len__(self) -> int:
        return len(BUILT_IN)

    def __contains__(self, name: object) -> bool:
        return name in BUILT_IN

    def descriptions(self) -> dict[str, str]:
        """Return a line about each, by its name."""
        return {name: entry.description for name, entry in BUILT_IN.items()}

    def find(self, name: str) -> type[Model]:
        """Return the class of this name, or InputError with the nearest one."""
        if name not in self:
            hint = nearest(name, self) or f"; there are {', '.join(self)}"
            raise InputError(f"there is no model '{name}'{hint}")
        return self[name]


ARCHITECTURES = Architectures()
