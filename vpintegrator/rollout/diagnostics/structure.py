"""Symplecticity defect of a map, in phase space and on windows, and its reversibility defect."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from vpintegrator.dynamics.structure import (
    component_scales,
    finite_windows,
    form_defect,
    iterated_tangent,
    own_form_defect,
    reversibility_defect,
)
from vpintegrator.maps import Map
from vpintegrator.rollout.diagnostics.diagnostic import Diagnostic
from vpintegrator.rollout.diagnostics.tangent import (
    first_window_derivative,
    first_windows,
    system_of,
)
from vpintegrator.rollout.report import Report
from vpintegrator.rollout.variables import Column, Variable


def symplecticity_defect(
    map: Map, windows: np.ndarray, scales: np.ndarray | None = None
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
    map
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
    >>> map = vp.classical("stoermer-verlet", vp.load_system("pendulum"), 0.1)
    >>> vp.rollout.diagnostics.symplecticity_defect(map, np.ones((3, 1, 2))) < 1e-14
    True
    """
    # a window is made from its first state by the equations
    unknown = map.window > 1 and map.system is not None and map.system.is_measured
    if not _has_form(map) or unknown:
        return None
    return _largest_defect(map, windows, scales, of_windows=False)


def window_symplecticity_defect(
    map: Map, windows: np.ndarray, scales: np.ndarray | None = None
) -> float | None:
    r"""Return the symplecticity defect of a map on the space of windows, 0 for a symplectic map.

    .. math:: \max_Z \, \max_{ij} \left| (D^T J D - J)_{ij} \right|

    with J on every time step. This is the form :math:`\sum_t dq_t \wedge dp_t` of the space of
    windows :math:`\mathbb{R}^{\text{window} \cdot \text{dim}}`. Symplectic transformers
    that predict whole windows preserve this form by construction. Their effect on phase space does
    not follow from it; see :func:`symplecticity_defect`. D is the derivative of the map that is
    iterated: if ``prediction_window`` < ``window``, it shifts the window and keeps no such form.
    For more than 128 components the defect is estimated as there.

    The form of a discrete Lagrangian is its own, :math:`-D_1 D_2 L\, dq \wedge dr`, relative to its
    largest entry; see :func:`vpintegrator.dynamics.structure.own_form_defect`.

    Parameters
    ----------
    map
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
    >>> map = vp.models.SymplecticTransformer(dim=2, window=3)
    >>> map.system = vp.load_system("pendulum")
    >>> windows = np.random.default_rng(0).normal(size=(5, 3, 2))
    >>> vp.rollout.diagnostics.window_symplecticity_defect(map, windows) < 1e-14
    True
    """
    model = getattr(map, "original", map)
    if hasattr(model, "own_form") and model.structure.form == "lagrangian":
        windows = finite_windows(map, windows)
        return own_form_defect(model, windows) if len(windows) else None
    if map.window == 1 or not _has_form(map):
        return None
    return _largest_defect(map, windows, scales, of_windows=True)


def _has_form(map: Map) -> bool:
    return map.system is not None and map.system.is_canonical and map.differentiable


def _largest_defect(
    map: Map, windows: np.ndarray, scales: np.ndarray | None, of_windows: bool
) -> float | None:
    """Return the largest defect over the windows, by images of tangent vectors."""
    windows = finite_windows(map, windows)
    structure = system_of(map).structure
    scales = component_scales(windows, structure) if scales is None else scales
    direct = of_windows or map.window == 1
    image = (
        partial(iterated_tangent, map) if direct else partial(_image_of_phase_space, map, scales)
    )
    size = map.dim * (map.window if of_windows else 1)
    return form_defect(image, windows, structure.pairs, scales, size)


def _image_of_phase_space(
    map: Map, scales: np.ndarray, windows: np.ndarray, vectors: np.ndarray
) -> np.ndarray:
    """Return images (n, dim, k) of tangent vectors (dim, k) under z_0 -> newest state."""
    # a model may lead to states, such as a collision, whose solution ends before the window
    carried = first_window_derivative(map, windows[:, 0], vectors, scales)
    known = np.isfinite(carried).all(axis=(1, 2, 3))
    if not known.any():
        return np.empty((0, *vectors.shape))
    carried = carried[known].reshape(-1, map.window * map.dim, vectors.shape[-1])
    return map.tangent(first_windows(map, windows[known, 0]), carried)[:, -map.dim :]


class Defects(Diagnostic):
    """Largest defects of symplecticity and reversibility at sampled states.

    The measurements are ``symplecticity``, ``window_symplecticity`` and ``reversibility``, numbers
    or None.
    """

    variables = (
        Variable("symplecticity", "largest defect of symplecticity at sampled states"),
        Variable("window_symplecticity", "largest defect of symplecticity of the map of windows"),
        Variable("reversibility", "largest defect of reversibility at sampled states"),
    )

    def result(self) -> dict[str, Any]:
        map = self.map
        windows = self.ensemble.sample
        scales = self.ensemble.scales
        rhos = self.ensemble.system.reversing_symmetries
        return {
            "symplecticity": symplecticity_defect(map, windows, scales),
            "window_symplecticity": window_symplecticity_defect(map, windows, scales),
            "reversibility": reversibility_defect(map, windows, rhos, scales),
        }

    @classmethod
    def columns(cls, report: Report) -> list[Column]:
        of_windows = "window symplecticity defect"
        header = ("defect", "of windows")
        kept = ("symplectic", "variational")
        return [
            Column("symplecticity defect", "symplecticity", header=("symplectic", "defect")),
            Column(of_windows, "window_symplecticity", "number", header, rank=4, promised=kept),
            Column("reversibility defect", "reversibility", rank=5, promised=("reversible",)),
        ]
