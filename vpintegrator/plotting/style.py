"""How figures look: sizes for print, colours that colour-blind readers tell apart.

Every method has its colour, line and marker, the same in every figure; learned models are drawn
thicker, the reference in grey. The colours are Okabe and Ito's (Color Universal Design, 2008).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np

COLUMN = 3.4  # inches, one column of a journal
PAGE = 7.0  # inches, both
SMALLEST = 1e-17  # what is drawn for an error of exactly 0 on a logarithmic axis
LARGEST = 1e6  # beyond it a method has failed, whatever the number
REFERENCE_COLOUR = "0.55"
_POINTS = 800  # of a line; more cannot be told apart in print

_PARAMETERS: Any = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7.5,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.minor.width": 0.4,
    "ytick.minor.width": 0.4,
    "lines.linewidth": 1.1,
    "axes.grid": True,
    "grid.color": "0.9",
    "grid.linewidth": 0.5,
    "axes.axisbelow": True,
    "pdf.fonttype": 42,  # fonts embedded as TrueType, which journals ask for
    "savefig.dpi": 200,
    "figure.facecolor": "white",
}


@dataclass(frozen=True)
class Look:
    """Colour, line and marker of one method."""

    colour: str
    line: Any
    marker: str
    width: float = 1.1


_CLASSICAL = {
    "implicit-midpoint": Look("#0072B2", "--", "s"),
    "rk4": Look("#009E73", "-.", "^"),
    "gauss-legendre-2": Look("#0072B2", ":", "D"),
    "gauss-legendre-4": Look("#56B4E9", "--", "D"),
    "gauss-legendre-6": Look("#56B4E9", ":", "p"),
    "stoermer-verlet": Look("#E69F00", "--", "v"),
    "explicit-euler": Look("#8C6D46", ":", "x"),
    "explicit-midpoint": Look("#999933", "-.", "<"),
    "heun": Look("#882255", "-.", ">"),
}
_OTHER = [Look("#332288", "-.", "h"), Look("#44AA99", ":", "*"), Look("#117733", "--", "d")]
_LEARNED = [
    Look("#D55E00", "-", "o", 1.6),
    Look("#CC79A7", "-", "P", 1.6),
    Look("#AA4499", (0, (5, 1)), "X", 1.6),
    Look("#DDAA33", (0, (5, 1)), "8", 1.6),
]


def looks(names: Iterable[str], learned: Iterable[str]) -> dict[str, Look]:
    """The look of each method; learned models take theirs in the order given."""
    models, others = iter(list(learned)), iter(range(10**6))
    order = {name: i for i, name in enumerate(models)}
    return {
        name: _LEARNED[order[name] % len(_LEARNED)]
        if name in order
        else _CLASSICAL.get(name) or _OTHER[next(others) % len(_OTHER)]
        for name in names
    }


@contextmanager
def paper_style() -> Iterator[None]:
    """Settings for print, for as long as the block lasts."""
    with matplotlib.rc_context(_PARAMETERS):
        yield


def floored(values: np.ndarray) -> np.ndarray:
    """Absolute values for a logarithmic axis: zeros at :data:`SMALLEST`, runaways left out."""
    with np.errstate(all="ignore"):
        size = np.abs(values)
        return np.where(size <= LARGEST, np.maximum(size, SMALLEST), np.nan)


def thinned(count: int, logarithmic: bool = False) -> np.ndarray:
    """Indices of at most some hundred of ``count`` points, evenly or logarithmically spaced."""
    if count <= _POINTS:
        return np.arange(count)
    if logarithmic:
        spaced = np.geomspace(1, count, _POINTS).astype(int) - 1
        return np.unique(np.concatenate([[0], spaced, [count - 1]]))
    return np.unique(np.linspace(0, count - 1, _POINTS).astype(int))


def mathtext(component: str) -> str:
    """A component's name for a label: ``z1`` as z with index 1, ``q[0]`` as q with index 0."""
    letters = component.rstrip("0123456789[]_")
    index = component[len(letters) :].strip("[]_")
    return f"${letters}_{{{index}}}$" if index and len(letters) == 1 else f"${component}$"
