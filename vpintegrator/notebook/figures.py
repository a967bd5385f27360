"""The figures of vp-plot inside a page."""

from __future__ import annotations

from typing import Any

import numpy as np

from vpintegrator.notebook.page import picture
from vpintegrator.plotting.declaration import FigureDeclaration
from vpintegrator.plotting.style import PAPER


def drawn(declared: FigureDeclaration[Any], scene: Any, words: str) -> str:
    """Return a figure of a scene as HTML; empty if the figure does not apply.

    Parameters
    ----------
    declared, scene
        The figure, and what it is drawn from.
    words
        Description of the figure.
    """
    with PAPER.applied(), np.errstate(all="ignore"):
        if not declared.applies(scene):
            return ""
        return picture(declared.draw(scene), words)
