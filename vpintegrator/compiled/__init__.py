"""Models as machine code: a window is a few thousand operations on numbers, not on tensors.

A model is followed once in PyTorch, every element of every small tensor as a number of its own, to
a graph of scalar operations (``tracing``, ``operations``, ``scalar_graph``). It becomes C++ for as
many trajectories at once as a vector register holds, which loops over the windows (``source``);
the compiler of the machine turns it into a library, kept between programs (``native``). Of
PyTorch's overhead, hundreds of times the arithmetic of such models, nothing is left (``model``).

Every library is compared with PyTorch before it is used; one that gives other numbers is refused
(``verification``).

Training needs derivatives: the graph is differentiated as it stands (``differentiation``), and one
library gives residuals, gradients and Jacobians (``adjoint_source``, ``residual``); what is made of
these for Levenberg-Marquardt has a library of its own, the same for all models
(``symmetric_matrix``).

Formulas of systems become machine code the same way (``formulas``), and so do the steps of
classical methods (``step_source``, ``method``, ``trajectories``). Names are imported when they are
first used: what formulas need is there without torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from vpintegrator.errors import InputError
from vpintegrator.native import NotCompilable, NotWorthIt

if TYPE_CHECKING:
    from vpintegrator.compiled.method import CompiledMethod, compile_method
    from vpintegrator.compiled.model import CompiledModel, compile_model
    from vpintegrator.compiled.residual import CompiledResidual
    from vpintegrator.compiled.step_source import obstacle
    from vpintegrator.compiled.symmetric_matrix import SymmetricMatrix
    from vpintegrator.compiled.timing import repeat_states, seconds_per_step
    from vpintegrator.compiled.trajectories import integrate, machine_code

_MODULES = {
    "CompiledMethod": "method",
    "CompiledModel": "model",
    "CompiledResidual": "residual",
    "SymmetricMatrix": "symmetric_matrix",
    "compile_method": "method",
    "compile_model": "model",
    "machine_code": "trajectories",
    "integrate": "trajectories",
    "obstacle": "step_source",
    "repeat_states": "timing",
    "seconds_per_step": "timing",
}

__all__ = [
    "CompiledMethod",
    "CompiledModel",
    "CompiledResidual",
    "NotCompilable",
    "NotWorthIt",
    "SymmetricMatrix",
    "compile_method",
    "compile_model",
    "integrate",
    "machine_code",
    "obstacle",
    "repeat_states",
    "seconds_per_step",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


def wanted_on(device: str, compiled: bool | None) -> bool | None:
    """Return whether machine code is wanted on a device: True, False, or None where it pays.

    Parameters
    ----------
    device
        Type of the device of a model, such as ``cpu`` or ``cuda``.
    compiled
        True, False or None, as users give it.

    Raises
    ------
    InputError
        If another value is given, or True for another device than the CPU.
    """
    if compiled not in (True, False, None):
        raise InputError(f"compiled must be True, False or None, not {compiled!r}")
    if device == "cpu":
        return compiled
    if compiled:
        raise InputError(f"on {device} models run in PyTorch; machine code is for the CPU")
    return False
