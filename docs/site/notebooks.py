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
    _let_kernels_be_quiet(Path(app.doctreedir).parent / "ipython")
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _let_kernels_be_quiet(folder: Path) -> None:
    """Each would warn that others on this machine might listen to it."""
    settings = folder / "profile_default" / "ipython_kernel_config.py"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text('get_config().IPKernelApp.log_level = "ERROR"\n', encoding="utf-8")
    os.environ["IPYTHONDIR"] = str(folder)


def is_notebook(source: Path) -> bool:
    """Whether a page has cells."""
    return source.suffix == ".md" and _CELL in source.read_text(encoding="utf-8")


def shortened(text: str, seconds: str) -> str:
    """Return a page with budgets of so many seconds."""
    return _BUDGET.sub(rf"\g<1>{seconds}", text)


def _shorten(text: list[str], seconds: str) -> None:
    if _CELL in text[0]:
        text[0] = shortened(text[0], seconds)
