"""Names and titles that a file may give to things."""

from __future__ import annotations

import keyword
import unicodedata

from vpintegrator.dynamics.expressions.functions import FUNCTIONS
from vpintegrator.errors import InputError

SYNTAX = ("where", "sum", "range", "len")  # written as calls, but no functions of numbers
RESERVED = {*FUNCTIONS, *SYNTAX, "pi", "t"}
_LONGEST_NAME = 100
# control characters, marks that turn the direction of writing, line separators
_HIDDEN = ("Cc", "Cf", "Zl", "Zp", "Cs")
_JOINERS = "\u00ad\u200b\u200c\u200d"  # characters that some scripts need, and soft hyphens


def check_name(name: str, where: str) -> str:
    """Return ``name`` if it may name a state component or a parameter, else raise InputError."""
    if not (name.isascii() and name.isidentifier()) or name.startswith("_"):
        raise InputError(f"{where}: '{name}' is no valid name; use letters, digits and _")
    if keyword.iskeyword(name) or name in RESERVED:
        raise InputError(f"{where}: '{name}' is reserved; choose another name")
    if len(name) > _LONGEST_NAME:
        raise InputError(f"{where}: a name has at most {_LONGEST_NAME} characters")
    return name


def readable(text: str, where: str, longest: int = _LONGEST_NAME, lines: bool = False) -> str:
    """Return a name or title that a terminal can show as it is, else raise InputError.

    Parameters
    ----------
    text, where
        Text to read, and its place for messages.
    longest
        Largest number of characters.
    lines
        Whether it may have several lines.
    """
    shown = text.replace("\n", " ").replace("\t", " ") if lines else text
    hidden = [c for c in shown if unicodedata.category(c) in _HIDDEN and c not in _JOINERS]
    if hidden:
        raise InputError(
            f"{where}: a text holds the character {hidden[0]!r}, which terminals obey instead of "
            "showing it; leave it out"
        )
    if len(text) > longest:
        raise InputError(f"{where}: a text has {len(text)} characters, more than {longest}")
    return text
