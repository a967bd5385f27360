"""Polynomial map of windows with a parameter of each orbit that nobody wrote down."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from vpintegrator.models.components import Components
from vpintegrator.models.iteration import as_windows, evaluating
from vpintegrator.models.model import Model
from vpintegrator.models.stored import Periods
from vpintegrator.nn.hidden_parameter import HiddenParameterLayer
from vpintegrator.nn.layer import default_dtype


class HiddenParameterMap(Model):
    r"""A polynomial map with a parameter that is constant along each orbit, and that nobody told.

    .. math:: z_{T+1} = z_T + g(z_T, \theta(z_1, \dots, z_T))

    A moment of inertia, a field, or the step may differ from run to run. Then one state does not
    determine the next, and a window tells the parameter: see
    :class:`vpintegrator.nn.HiddenParameterLayer`. A rollout keeps the parameter to rounding,
    whatever the weights are. Training finds g and the parameter of every orbit together, by
    variable projection: a nonlinear least squares problem in the parameters alone.

    Parameters
    ----------
    dim
        Components of a state.
    window
        Time steps read; longer ones tell the parameter better where data are noisy.
    degree
        Degree of the polynomials in the components of a state.
    order
        Largest power of the parameter; by default one less than ``degree``, and at most half of it
        and three halves.
    periodic
        Components that are angles, by number, with their periods.
    dtype
        Type of the weights.

    Raises
    ------
    InputError
        If there are more than 2,000 terms, or the window is too short.

    References
    ----------
    Golub, Pereyra, SIAM J. Numer. Anal. 10 (1973): variable projection.

    Examples
    --------
    >>> model = vp.models.HiddenParameterMap(dim=2, degree=3)
    >>> model.window, model.prediction_window, model.core.order
    (2, 1, 2)
    """

    name = "hidden-parameter"
    linear_in_parameters = True
    core: HiddenParameterLayer

    @default_dtype(torch.float64)
    def __init__(
        self,
        dim: int,
        *,
        window: int = 2,
        degree: int = 3,
        order: int | None = None,
        periodic: Periods = (),
        dtype: str | torch.dtype = "float64",
    ) -> None:
        components = Components(dim, periodic=periodic)
        core = HiddenParameterLayer(
            *(dim, degree, usual_order(degree) if order is None else order),
            window=window,
            periodic=[*components.periods],
        )
        super().__init__(core, components, window, 1, dtype=dtype)

    @property
    def remark(self) -> str:  # type: ignore[override]
        """Words on the map that its structure does not say."""
        words = "keeps a hidden parameter that the window tells"
        return f"{words}, {super().remark}"

    def hidden_parameter(self, windows: Any) -> np.ndarray:
        """Return the hidden parameter (n,) of windows (n, window, dim), in units of training.

        Values of the training orbits are between -1 and 1. They are a function of the parameter
        that nobody wrote down, and of what the map conserves.

        Parameters
        ----------
        windows
            States one step apart, (n, window, dim).

        Examples
        --------
        >>> vp.models.HiddenParameterMap(dim=2).hidden_parameter(np.zeros((3, 2, 2)))
        array([0., 0., 0.])
        """
        with evaluating(self), torch.no_grad():
            normalised = self.coordinates(as_windows(self, windows))
            result: np.ndarray = self.core.parameter(normalised).double().cpu().numpy()
            return result


def usual_order(degree: int) -> int:
    """Return the largest power of a hidden parameter beside polynomials of a degree.

    Each order of a step adds one to both; higher ones gain little.
    """
    return max(min(degree - 1, (degree + 3) // 2), 1)
