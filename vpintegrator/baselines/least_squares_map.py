"""Affine map by least squares."""

from __future__ import annotations

import numpy as np

from vpintegrator.baselines.base import Baseline, BaselineData, Step


class LeastSquaresMap(Baseline):
    """The affine map z' = A z + b of least squares.

    Examples
    --------
    >>> z = np.random.default_rng(0).normal(size=(20, 1, 2))
    >>> data = vp.baselines.BaselineData(np.concatenate([z, 0.5 * z + 1], 1), step=1.0)
    >>> vp.baselines.LeastSquaresMap().fit(data)(np.array([[2.0, 4.0]])).round(12)
    array([[2., 3.]])
    """

    name = "linear map"

    def fit(self, data: BaselineData, seconds: float = 60.0, seed: int = 0) -> Step:
        """Return the map, see ``Baseline.fit``."""
        columns = np.column_stack([data.before, np.ones(len(data.before))])
        matrix = np.linalg.lstsq(columns, data.after - data.before)[0]
        return lambda states: states + states @ matrix[:-1] + matrix[-1]
