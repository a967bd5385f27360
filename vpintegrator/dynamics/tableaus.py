"""Tableaus of explicit Runge-Kutta methods by name."""

from __future__ import annotations

from typing import NamedTuple

from scipy.integrate import DOP853


class Tableau(NamedTuple):
    """Coefficients of an explicit Runge-Kutta method.

    Attributes
    ----------
    stages
        Rows a_{i1}, ..., a_{i,i-1} of the stages after the first.
    weights
        b_1, ..., b_s.
    """

    stages: tuple[tuple[float, ...], ...]
    weights: tuple[float, ...]


TABLEAUS = {
    "explicit-euler": Tableau((), (1.0,)),
    "explicit-midpoint": Tableau(((1 / 2,),), (0.0, 1.0)),
    "heun": Tableau(((1.0,),), (1 / 2, 1 / 2)),
    "rk4": Tableau(((1 / 2,), (0.0, 1 / 2), (0.0, 0.0, 1.0)), (1 / 6, 1 / 3, 1 / 3, 1 / 6)),
    "dormand-prince-8": Tableau(
        tuple(tuple(DOP853.A[i, :i].tolist()) for i in range(1, DOP853.n_stages)),
        tuple(DOP853.B[: DOP853.n_stages].tolist()),
    ),
}
