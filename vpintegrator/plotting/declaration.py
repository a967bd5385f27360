"""What a figure says of itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

import matplotlib.figure

Subject = TypeVar("Subject")


@dataclass(frozen=True)
class FigureDeclaration(Generic[Subject]):
    """A figure of what a scene shows: of a rollout, or of a model.

    Attributes
    ----------
    name
        Of its files and its caption.
    draw
        Draws it.
    caption
        Sentences: what is drawn, and the numbers that a reader will ask for, as plain text with
        numbers like ``1.2e-05``.
    applies
        Whether there is something to show. Of a measurement that a file may lack, for all methods
        or for some: ``lambda scene: bool(scene.measured(name))``, and what that gives is drawn.
    """

    name: str
    draw: Callable[[Subject], matplotlib.figure.Figure]
    caption: Callable[[Subject], Iterable[str]]
    applies: Callable[[Subject], bool] = lambda _: True
