"""Texts that come from files, made fit to be shown.

A title or a name may hold anything. Control characters would steer the reader's terminal, or end a
comment in a LaTeX file; invisible ones turn the order of letters round; halves of a character
cannot be written at all.
"""

from __future__ import annotations

import unicodedata

_CONTROL = {"Cc", "Zl", "Zp"}  # control characters, and ends of lines and paragraphs
_LOST = {"Cs": "\N{REPLACEMENT CHARACTER}", "Cf": ""}


def printable(text: str) -> str:
    """The text without characters that steer a terminal; lines stay lines."""
    if text.isprintable():
        return text
    return "".join("\n" if c == "\n" else _shown(c) for c in text)


def one_line(text: str) -> str:
    """The same on one line, with single spaces between its words."""
    return " ".join(printable(text).split())


def _shown(character: str) -> str:
    category = unicodedata.category(character)
    return " " if category in _CONTROL else _LOST.get(category, character)
