"""Pages with cells: which they are, and the same with trainings of a few seconds."""

from __future__ import annotations

import os
import re
from pathlib import Path

from sphinx.application import Sphinx

SECONDS = "VPINTEGRATOR_TUTORIAL_SECONDS"
_CELL = "{code-cell}"
_BUDGET = re.compile(r"(seconds(?:=|\s+))\d+(?:\.\d+)?")


def setup(app: Sphinx) -> dict[str, bool]:
    """Shorten them where the environment asks for it, as ``scripts/docs --quick`` does."""
    seconds = os.environ.get(SECONDS)
    if seconds is not None:
        app.connect("source-read", lambda app, name, text: _shorten(text, seconds))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def is_notebook(source: Path) -> bool:
    """Whether a page has cells."""
    return source.suffix == ".md" and _CELL in source.read_text(encoding="utf-8")


def shortened(text: str, seconds: str) -> str:
    """A page in which every ``seconds=60`` and ``--seconds 60`` says so many seconds instead."""
    return _BUDGET.sub(rf"\g<1>{seconds}", text)


def _shorten(text: list[str], seconds: str) -> None:
    if _CELL in text[0]:
        text[0] = shortened(text[0], seconds)
