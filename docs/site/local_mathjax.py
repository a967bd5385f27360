"""Formulas without a network: MathJax stands in the site itself.

The files are those of the package sphinx-mathjax-offline, without what turns formulas into speech
and pictures (twenty megabytes).
"""

from __future__ import annotations

import shutil
from importlib.metadata import files
from pathlib import Path

from sphinx.application import Sphinx

PROGRAM = "tex-chtml.js"
FONTS = "output/chtml/fonts/woff-v2"


def setup(app: Sphinx) -> dict[str, bool]:
    app.config.mathjax_path = f"mathjax/{PROGRAM}"
    app.connect("build-finished", _copy)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _copy(app: Sphinx, error: Exception | None) -> None:
    if error is not None or app.builder.format != "html":
        return
    folder = _folder()
    target = Path(app.outdir) / "_static" / "mathjax"
    (target / FONTS).mkdir(parents=True, exist_ok=True)
    shutil.copyfile(folder / PROGRAM, target / PROGRAM)
    for font in (folder / FONTS).iterdir():
        shutil.copyfile(font, target / FONTS / font.name)


def _folder() -> Path:
    program = next(
        file for file in files("sphinx-mathjax-offline") or [] if str(file).endswith(f"/{PROGRAM}")
    )
    return Path(str(program.locate())).parent
