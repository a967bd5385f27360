"""Objects that notebooks show with formulas, tables and figures."""

from __future__ import annotations

import importlib
from typing import Any, ClassVar

from vpintegrator.errors import InputError


class RichDisplay:
    """What notebooks show as :mod:`vpintegrator.notebook` writes it; a terminal shows its repr.

    Jupyter, and all that understands its protocol, asks an object for ``_repr_html_`` and
    ``_repr_markdown_``. The answers have figures in them, and a folder knows nothing of those above
    it. So a class says only the name of the module that writes them, which is imported when a
    notebook asks: nothing needs to be switched on, and importing the package stays instant.

    Parameters
    ----------
    by
        That module of ``vpintegrator.notebook``; derived classes have it too.

    Examples
    --------
    >>> from vpintegrator.rich_display import RichDisplay
    >>> class Orbit(RichDisplay, by="dataset"): ...
    >>> Orbit.displayed_by
    'dataset'
    """

    displayed_by: ClassVar[str] = ""

    def __init_subclass__(cls, by: str = "", **options: Any) -> None:
        super().__init_subclass__(**options)
        if by:
            cls.displayed_by = by

    def in_format(self, name: str) -> str | None:
        """It in a format, ``html`` or ``markdown``; None where its module does not write that."""
        module = importlib.import_module(f"vpintegrator.notebook.{self.displayed_by}")
        write = getattr(module, name, None)
        return None if write is None else write(self)

    def _repr_html_(self) -> str | None:
        return self._asked_for("html")

    def _repr_markdown_(self) -> str | None:
        return self._asked_for("markdown")

    def _asked_for(self, name: str) -> str | None:
        """None where a file is gone or damaged: the line of the repr is left then."""
        try:
            return self.in_format(name)
        except (InputError, OSError):
            return None
