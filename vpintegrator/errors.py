"""Exception for invalid input, and helpers for its messages."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

_LONGEST = 1500  # characters: what a file holds may be quoted, but not all of it
_LONGEST_NAME = 100  # characters of a name for which another is looked for
_COMPARED = 1000  # names among which it is looked for


class InputError(ValueError):
    """Something the user gave is wrong: a file, a name, a number, an option.

    The message is one sentence that says what is wrong, where, and what to do. The commands print
    it and exit with code 2; in Python it is a ``ValueError``.

    Messages quote what files hold, and a file may come from a stranger: characters that a terminal
    would obey are written as Python writes them, and quotations that would fill the screen are cut.
    """

    def __init__(self, message: object) -> None:
        super().__init__(printable(str(message), _LONGEST))


def printable(text: str, longest: int | None = None) -> str:
    """Return text on one line without control characters, shortened in the middle if too long.

    Examples
    --------
    >>> printable("a title\\x1b[31m\\nof two lines")
    'a title\\\\x1b[31m of two lines'
    """
    if not text.isprintable():
        text = " ".join(text.splitlines())
        text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    if longest is not None and len(text) > longest:
        half = longest // 2 - 3
        text = f"{text[:half]} ... {text[-half:]}"
    return text


def first_line(error: BaseException) -> str:
    """Return the first line of the message of an exception, or its name where there is none."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a clause such as ``; did you mean 'rigid-body'?``, or nothing if no name is near."""
    import difflib

    if len(name) > _LONGEST_NAME:
        return ""
    candidates = [other for other in islice(known, _COMPARED) if len(other) <= _LONGEST_NAME]
    matches = difflib.get_close_matches(name, candidates, n=1, cutoff=0.65)
    return f"; did you mean '{matches[0]}'?" if matches else ""
