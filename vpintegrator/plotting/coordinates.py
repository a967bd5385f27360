"""Components of the state in time, beside the reference."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from vpintegrator.plotting.style import REFERENCE_COLOUR, Look, mathtext

_POINTS = 6000


def draw_component(
    axes: Axes,
    times: np.ndarray,
    reference: np.ndarray,
    methods: dict[str, tuple[np.ndarray, Look]],
    component: str,
) -> None:
    """One component of one trajectory, (time,), of the reference and of every method."""
    axes.plot(times[:_POINTS], reference[:_POINTS], color=REFERENCE_COLOUR, lw=2.6, alpha=0.5)
    for values, look in methods.values():
        axes.plot(
            times[:_POINTS], values[:_POINTS], color=look.colour, ls=look.line, lw=0.6 * look.width
        )
    low, high = reference.min(), reference.max()
    margin = 0.3 * max(high - low, 1e-12)
    axes.set(ylabel=mathtext(component), ylim=(low - margin, high + margin))
    axes.set_xlim(times[0], times[min(len(times), _POINTS) - 1])
