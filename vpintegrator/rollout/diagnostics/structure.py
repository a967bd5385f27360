"""Symplecticity defect of a map, in phase space and on windows, and its reversibility defect."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vpintegrator.dynamics.structure import (
    component_scales,
    finite_windows,
    form_defect,
    reversibility_defect,
)
from vpintegrator.rollout.diagnostics.diagnostic import Number
from vpintegrator.rollout.diagnostics.first_window import first_window_derivative, first_windows
from vpintegrator.rollout.flow import NumericalFlow, structure_of
from vpintegrator.rollout.variables import Variable

_Image = Callable[[NumericalFlow, np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def symplecticity_defect(
    flow: NumericalFlow, windows: np.ndarray, scales: np.ndarray | None = None
) -> float | None:
    r"""Return the symplecticity defect of a map of phase space, 0 for a symplectic map.

    .. math:: \max_Z \, \max_{ij} \left| (D^T J D - J)_{ij} \right|

    The outer maximum is over windows Z (n, window, dim). For a one-step method D is the derivative
    of its map and J the matrix of the canonical form. Each pair of a position and its momentum is
    measured in units that keep the form and give both the same scale: q in :math:`\sqrt{s_q/s_p}`,
    p in its inverse. So the defect does not depend on the units of q and p. For equations that
    depend on time, the form is that of states (q, p) of one time.

    A model of windows maps the product space, where only windows on solutions have a meaning. A
    model could predict perfectly from the newest state alone, and its derivative on the product
    space would be singular. So the defect uses no form on the whole product space; for that see
    :func:`window_symplecticity_defect`. D is the derivative of the map of phase space from
    :math:`z_0` to the newest state predicted, through the window of the exact flow from
    :math:`z_0`, which is itself symplectic. Only the first states of ``windows`` are used then.

    For states of more than 128 components the defect is estimated. Random tangent vectors u, v of
    standard normal components give the root mean square of :math:`\omega(Du, Dv) - \omega(u, v)`,
    with the form :math:`\omega(u, v) = u^T J v`. This root mean square estimates the Frobenius norm
    of :math:`D^T J D - J`, which is no less than the largest entry.

    Parameters
    ----------
    flow
        The map, of a Hamiltonian system.
    windows
        Windows at which the defect is measured, (n, window, dim).
    scales
        Scale of each component, (dim,); by default that of the windows.

    Returns
    -------
    float or None
        None if the defect is not defined: the system is not Hamiltonian or not known, the method
        has no derivative, or no window is finite.

    Examples
    --------
    >>> flow = vp.rollout.as_flow("stoermer-verlet", vp.load_system("pendulum"), 0.1)
    >>> vp.rollout.diagnostics.symplecticity_defect(flow, np.ones((3, 1, 2))) < 1e-14
    True
    """
    # a window is made from its first state by the equations
    unknown = flow.window > 1 and flow.system is not None and flow.system.is_measured
    if not _has_form(flow) or unknown:
        return None
    return _largest_defect(flow, windows, scales, _image_of_phase_space, flow.dim)


def window_symplecticity_defect(
    flow: NumericalFlow, windows: np.ndarray, scales: np.ndarray | None = None
) -> float | None:
    r"""Return the symplecticity defect of a map on the space of windows, 0 for a symplectic map.

    .. math:: \max_Z \, \max_{ij} \left| (D^T J D - J)_{ij} \right|

    with J on every time step. This is the form :math:`\sum_t dq_t \wedge dp_t` of the space of
    windows :math:`\mathbb{R}^{\text{window} \cdot \text{dim}}`. Symplectic transformers preserve
    this form by construction, at any window. Their effect on phase space does not follow from it;
    see :func:`symplecticity_defect`. D is the derivative of the whole map, also if
    ``prediction_window`` < ``window``. For more than 128 components the defect is estimated as
    there.

    Parameters
    ----------
    flow
        The map, of a Hamiltonian system.
    windows
        Windows at which the defect is measured, (n, window, dim).
    scales
        Scale of each component, (dim,); by default that of the windows.

    Returns
    -------
    float or None
        None for maps of one state, for which the two defects are the same. None also if the system
        is not Hamiltonian, the method has no derivative, or no window is finite.

    Examples
    --------
    >>> model = vp.models.SymplecticTransformer(dim=2, window=3)
    >>> flow = vp.rollout.as_flow(model, vp.load_system("pendulum"), 0.1)
    >>> windows = np.random.default_rng(0).normal(size=(5, 3, 2))
    >>> vp.rollout.diagnostics.window_symplecticity_defect(flow, windows) < 1e-14
    True
    """
    if flow.window == 1 or not _has_form(flow):
        return None
    size = flow.window * flow.dim
    return _largest_defect(flow, windows, scales, _image_of_windows, size)


def _has_form(flow: NumericalFlow) -> bool:
    return flow.system is not None and flow.system.is_canonical and flow.differentiable


def _largest_defect(
    flow: NumericalFlow, windows: np.ndarray, scales: np.ndarray | None, image: _Image, size: int
) -> float | None:
    """Return the largest defect over the windows, by images of tangent vectors."""
    windows = finite_windows(flow, windows)
    assert flow.system is not None
    scales = component_scales(windows, structure_of(flow)) if scales is None else scales
    pairs = flow.system.structure.pairs

    def image_of(windows: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        return image(flow, windows, vectors, scales)

    return form_defect(image_of, windows, pairs, scales, size)


def _image_of_phase_space(
    flow: NumericalFlow, windows: np.ndarray, vectors: np.ndarray, scales: np.ndarray
) -> np.ndarray:
    """Return images (n, dim, k) of tangent vectors (dim, k) under z_0 -> newest state."""
    if flow.window == 1:
        return flow.tangent(windows, vectors)
    # a model may lead to states, such as a collision, whose solution ends before the window
    carried = first_window_derivative(flow, windows[:, 0], vectors, scales)
    known = np.isfinite(carried).all(axis=(1, 2, 3))
    if not known.any():
        return np.empty((0, *vectors.shape))
    carried = carried[known].reshape(-1, flow.window * flow.dim, vectors.shape[-1])
    return flow.tangent(first_windows(flow, windows[known, 0]), carried)[:, -flow.dim :]


def _image_of_windows(
    flow: NumericalFlow, windows: np.ndarray, vectors: np.ndarray, scales: np.ndarray
) -> np.ndarray:
    return flow.tangent(windows, vectors)


SYMPLECTICITY = Number(
    Variable("symplecticity", "largest defect of symplecticity at sampled states"),
    lambda e: symplecticity_defect(e.flow, e.sample, e.comparison.scales),
    "symplecticity defect",
    header=("symplectic", "defect"),
)
WINDOW_SYMPLECTICITY = Number(
    Variable("window_symplecticity", "largest defect of symplecticity of the map of windows"),
    lambda e: window_symplecticity_defect(e.flow, e.sample, e.comparison.scales),
    "window symplecticity defect",
    header=("defect", "of windows"),
    rank=4,
    promised=("symplectic",),
)
REVERSIBILITY = Number(
    Variable("reversibility", "largest defect of reversibility at sampled states"),
    lambda e: reversibility_defect(
        e.flow, e.sample, e.comparison.system.reversing_symmetries, e.comparison.scales
    ),
    "reversibility defect",
    rank=5,
    promised=("reversible",),
)
