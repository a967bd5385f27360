"""Shell completion of names; click itself completes choices, and the shell files and folders.

An option takes ``shell_complete=offer(...)`` with names, or functions that list names. They must
not import anything slow, because the shell asks at every press of the key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import click
from click.shell_completion import CompletionItem

from vpintegrator.catalogue import DATASETS, SYSTEMS, catalogue
from vpintegrator.storage.toml import read_toml

Described = Mapping[str, str]  # names, each with a short description
Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem[str]]]


def offer(*sources: str | Callable[[], Described], several: bool = False) -> Completer:
    """Return the ``shell_complete`` of an option or argument.

    If no name begins with the word, the shell completes a file.

    Parameters
    ----------
    sources
        Names, and functions that return names with descriptions.
    several
        Whether the option takes several names with commas: the last name is completed.
    """

    def complete(
        _context: click.Context, _parameter: click.Parameter, text: str
    ) -> list[CompletionItem[str]]:
        before, comma, last = text.rpartition(",") if several else ("", "", text)
        known: dict[str, str] = {}
        for source in sources:
            known |= {source: ""} if isinstance(source, str) else source()
        taken = before.split(",")
        items = [
            CompletionItem(f"{before}{comma}{name}", help=words or None)
            for name, words in known.items()
            if name.startswith(last) and name not in taken
        ]
        return items or [CompletionItem(text, type="file")]

    return complete


def systems() -> Described:
    """Return the systems of the catalogue, with their titles."""
    return _titles(SYSTEMS)


def datasets() -> Described:
    """Return the recipes of the catalogue, with their titles."""
    return _titles(DATASETS)


def models() -> Described:
    """Return the architectures."""
    from vpintegrator.models.registry import ARCHITECTURES

    return ARCHITECTURES.descriptions()


def _titles(package: str) -> Described:
    tables = {
        name: read_toml(entry.read_text(encoding="utf-8"), name)
        for name, entry in catalogue(package).items()
    }
    return {name: str(table["title"]) for name, table in tables.items()}
