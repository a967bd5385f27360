"""How far a map is from being symplectic or reversible."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vpintegrator.rollout.diagnostics.diagnostic import Number, Variable
from vpintegrator.rollout.diagnostics.first_window import first_window_derivative, first_windows
from vpintegrator.rollout.flow import NumericalFlow


def symplecticity_defect(flow: NumericalFlow, windows: np.ndarray) -> float | None:
    """Largest entry of |D^T J D - J| over windows (n, window, dim), 0 for a symplectic map.

    For a one-step method D is the derivative of its map and J the matrix of the canonical form,
    q before p.

    A model of windows maps the product space, of which only the windows that lie on solutions mean
    anything: a model could predict perfectly from the newest state alone, and its derivative there
    would not even be regular. So no form on the whole product space is looked at. D is the
    derivative of the map of phase space z_0 -> newest state predicted, through the window of the
    exact flow from z_0, itself symplectic. Of ``windows`` only the first states count then.

    Returns
    -------
    float or None
        None where it is not defined: for a system that is not Hamiltonian or not known, for a
        method without derivative, and where no window is finite.

    Examples
    --------
    >>> flow = vp.rollout.as_flow("stoermer-verlet", vp.load_system("pendulum"), 0.1)
    >>> vp.rollout.diagnostics.symplecticity_defect(flow, np.ones((3, 1, 2))) < 1e-14
    True
    """
    if flow.system is None or not flow.system.is_hamiltonian or not flow.differentiable:
        return None
    windows = _finite(flow, windows)
    if not len(windows):
        return None
    if flow.window == 1:
        derivative = flow.derivative(windows)
    else:
        # a model may lead to states, such as a collision, whose solution ends before the window
        tangent = first_window_derivative(flow, windows[:, 0])
        known = np.isfinite(tangent).all(axis=(1, 2, 3))
        if not known.any():
            return None
        windows = first_windows(flow, windows[known, 0])
        tangent = tangent[known].reshape(len(windows), -1, flow.dim)
        derivative = flow.derivative(windows)[:, -flow.dim :] @ tangent
    half = flow.dim // 2
    form = np.kron([[0.0, 1.0], [-1.0, 0.0]], np.eye(half))
    with np.errstate(all="ignore"):
        return _largest(derivative.transpose(0, 2, 1) @ form @ derivative - form)


def reversibility_defect(
    flow: NumericalFlow, windows: np.ndarray, symmetries: Sequence[np.ndarray] | None = None
) -> float | None:
    """Largest component of |R Phi R Phi Z - Z| over windows Z (n, window, dim), 0 if reversible.

    R applies rho, with f(rho z) = -rho f(z), to every state of a window and reverses their order
    in time (Hairer, Lubich, Wanner, Geometric Numerical Integration, section V.1; for windows see
    ``vpintegrator.nn.Reversible``). Phi is the whole map of windows, also where
    ``prediction_window`` < ``window``.

    Parameters
    ----------
    flow
        The map, any.
    windows
        Where it is measured.
    symmetries
        Matrices rho (dim, dim); by default all reversing symmetries of the system.

    Returns
    -------
    float or None
        The largest defect over all symmetries; None where there is no symmetry, or no window that
        is finite.

    Examples
    --------
    >>> flow = vp.rollout.as_flow("stoermer-verlet", vp.load_system("pendulum"), 0.1)
    >>> vp.rollout.diagnostics.reversibility_defect(flow, np.ones((3, 1, 2))) < 1e-14
    True
    """
    if symmetries is None:
        symmetries = [] if flow.system is None else flow.system.reversing_symmetries
    windows = _finite(flow, windows)
    if not len(windows):
        return None
    forward = flow.map(windows)
    defects = []
    for rho in symmetries:
        back = flow.map(_reversed(forward, rho))
        with np.errstate(all="ignore"):
            defects.append(_largest(_reversed(back, rho) - windows))
    return max((defect for defect in defects if defect is not None), default=None)


def _reversed(windows: np.ndarray, rho: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return windows[:, ::-1] @ np.asarray(rho).T


def _finite(flow: NumericalFlow, windows: np.ndarray) -> np.ndarray:
    windows = np.asarray(windows, dtype=np.float64).reshape(-1, flow.window, flow.dim)
    return windows[np.isfinite(windows).all(axis=(1, 2))]


def _largest(values: np.ndarray) -> float | None:
    """Largest size of those that are finite."""
    sizes = np.abs(values[np.isfinite(values)])
    return float(sizes.max()) if sizes.size else None


SYMPLECTICITY = Number(
    Variable("symplecticity", "largest defect of symplecticity at sampled states"),
    lambda ensemble: symplecticity_defect(ensemble.flow, ensemble.sample),
    "symplecticity defect",
    rank=4,
    promised=("symplectic",),
)
REVERSIBILITY = Number(
    Variable("reversibility", "largest defect of reversibility at sampled states"),
    lambda ensemble: reversibility_defect(ensemble.flow, ensemble.sample),
    "reversibility defect",
    rank=5,
    promised=("symmetric", "reversible"),
)
