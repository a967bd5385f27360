"""Declaration of a figure: its name, drawing, caption and condition."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

import matplotlib.figure

Subject = TypeVar("Subject")


@dataclass(frozen=True)
class FigureDeclaration(Generic[Subject]):
    """Figure of a scene, which shows a rollout, an ensemble or a model.

    Attributes
    ----------
    name
        Name of the figure, its files and its caption.
    draw
        Function that draws the figure.
    caption
        Function that returns sentences in plain text, with numbers like ``1.2e-05``.
    applies
        Whether the scene has something to show. A measurement may be missing from a file, for some
        methods or for all. Then ``lambda scene: bool(scene.measured(name))`` is the condition, and
        the figure draws the values of ``scene.measured(name)``.
    """

    name: str
    draw: Callable[[Subject], matplotlib.figure.Figure]
    caption: Callable[[Subject], Iterable[str]]
    applies: Callable[[Subject], bool] = lambda _: True
