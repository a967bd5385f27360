"""Base class of objects that notebooks show with formulas, tables and figures; times in words."""

from __future__ import annotations

import importlib
from typing import Any, ClassVar


class RichDisplay:
    """Rich display of an object in notebooks; a terminal shows its repr.

    Jupyter, and other programs that follow its protocol, ask an object for ``_repr_html_`` and
    ``_repr_markdown_``. The answers contain figures, and the modules of systems and rollouts must
    not import those of figures. So a class states only the name of the module that writes its
    answers. This module is imported when a notebook asks, so that importing the package stays fast.

    Parameters
    ----------
    by
        Name of a module of ``vpintegrator.notebook``; derived classes inherit it.

    Examples
    --------
    >>> from vpintegrator.rich_display import RichDisplay
    >>> class Orbit(RichDisplay, by="system"): ...
    >>> Orbit.displayed_by
    'system'
    """

    displayed_by: ClassVar[str]

    def __init_subclass__(cls, by: str = "", **options: Any) -> None:
        super().__init_subclass__(**options)
        if by:
            cls.displayed_by = by

    def _shown(self, name: str) -> str | None:
        """Return the object in a format, or None for a format without a writer."""
        module = importlib.import_module(f"vpintegrator.notebook.{self.displayed_by}")
        write = getattr(module, name, None)
        return None if write is None else write(self)

    def _repr_html_(self) -> str | None:
        return self._shown("html")

    def _repr_markdown_(self) -> str | None:
        return self._shown("markdown")


def duration(seconds: float) -> str:
    """Return a time in s, ms, µs or ns."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"
