"""Plain text as LaTeX: special characters escaped, numbers and symbols as mathematics."""

from __future__ import annotations

import re

from vpintegrator.errors import printable

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "$": r"\textdollar{}",  # Matplotlib takes the backslash away from \$
    **{character: "\\" + character for character in "&%#_"},
    "–": "--",
    "…": r"\ldots{}",
    "µ": r"$\mu$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "→": r"$\to$",
    "≤": r"$\leq$",
    "∞": r"$\infty$",
    "†": r"$\dagger$",
    "|": r"$|$",
    "<": r"$<$",
    ">": r"$>$",
}
_NUMBER = re.compile(r"(?<![\w.])([+-]?)(\d(?:\.\d+)?)e([+-]?\d+)(?!\w)")
_DETERMINANT = "|log|det||"
_INDEXED = re.compile(r"(?<![\w$\\])([A-Za-z])_(\w)(?!\w)")


def latex(text: str) -> str:
    """Return LaTeX of a plain text: ``2.0e-05`` becomes a power of ten, ``z_0`` an index.

    Whatever the text holds, it is typeset and never obeyed, and it is a single line.
    """
    if _DETERMINANT in text:
        return r"$|\log|\det||$".join(map(latex, text.split(_DETERMINANT)))
    parts: list[str] = []
    end = 0
    for match in sorted(
        [*_NUMBER.finditer(text), *_INDEXED.finditer(text)], key=lambda found: found.start()
    ):
        parts += [escape(text[end : match.start()]), _mathematics(match)]
        end = match.end()
    return "".join([*parts, escape(text[end:])])


def escape(text: str) -> str:
    """Return LaTeX of a plain text without mathematics."""
    return "".join(_SPECIAL.get(character, character) for character in printable(text))


def _mathematics(match: re.Match[str]) -> str:
    if match.re is _INDEXED:
        return f"${match[1]}_{match[2]}$"
    sign = match[1].replace("+", "{+}")
    return rf"${sign}{match[2]}\cdot 10^{{{int(match[3])}}}$"
