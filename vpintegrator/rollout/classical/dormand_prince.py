"""Method of order 8 of Dormand and Prince, the basis of DOP853, at a fixed step.

The coefficients are those of SciPy, rounded once from the literature. The pair of order 8(5,3)
estimates the error of a step by two further combinations of the stages.
"""

from __future__ import annotations

import numpy as np
from scipy.integrate import DOP853

from vpintegrator.rollout.classical.explicit import ExplicitRungeKutta


def _row(numbers: np.ndarray, count: int) -> tuple[float, ...]:
    return tuple(map(float, numbers[:count]))


_STAGES = DOP853.n_stages

DORMAND_PRINCE_8 = ExplicitRungeKutta(
    name="dormand-prince-8",
    title="Dormand–Prince 8",
    order=8,
    source="Prince and Dormand, J. Comput. Appl. Math. 7 (1981) 67-75, in the coefficients of "
    "Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I, II.5 (DOP853)",
    stages=tuple(_row(DOP853.A[i], i) for i in range(1, _STAGES)),
    weights=_row(DOP853.B, _STAGES),
)

# weights of the stages in the error estimates of order 5 and of order 3
ESTIMATES = (_row(DOP853.E5, _STAGES), _row(DOP853.E3, _STAGES))
