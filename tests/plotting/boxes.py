"""Boxes of the texts of a figure, as the renderer draws them."""

from unittest.mock import patch

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

_INSIDE = 0.12  # part of a letter's height by which boxes are larger than the letters


def texts(figure):
    """Each text that is drawn, and its box (left, low, right, high) in pixels."""
    canvas = FigureCanvasAgg(figure)
    figure.draw_without_rendering()  # the layout
    found, original = [], Text.draw

    def draw(text, renderer):
        if text.get_visible() and text.get_text().strip():
            found.append((text.get_text(), text.get_window_extent(renderer).extents))
        original(text, renderer)

    with patch.object(Text, "draw", draw):
        canvas.draw()
    return found


def clipped(figure):
    """The texts that reach beyond the figure."""
    width, height = figure.bbox.size
    return [
        text
        for text, (left, low, right, high) in texts(figure)
        if left < -1 or low < -1 or right > width + 1 or high > height + 1
    ]


def overlapping(figure):
    """Pairs of texts that are drawn over one another."""
    found = texts(figure)
    pairs = []
    margin = _INSIDE * figure.dpi / 72 * 8
    for k, (one, a) in enumerate(found):
        for other, b in found[k + 1 :]:
            across = min(a[2], b[2]) - max(a[0], b[0])
            up = min(a[3], b[3]) - max(a[1], b[1])
            if np.all(np.array([across, up]) > margin):
                pairs.append((one, other))
    return pairs
