"""Models as machine code: a window is a few thousand operations on numbers, not on tensors.

A model is followed once in PyTorch, every element of every small tensor as a number of its own, to
a graph of scalar operations (``tracing``, ``operations``, ``scalar_graph``). It becomes C++ for as
many trajectories at once as a vector register holds, which loops over the windows (``source``);
the compiler of the machine turns it into a library, kept between programs (``native``). Of
PyTorch's overhead, hundreds of times the arithmetic of such models, nothing is left (``model``).

Every library is compared with PyTorch before it is used; one that gives other numbers is refused
(``verification``).

Models of many bodies, sums over clusters of few of them, and large models of windows become loops
over clusters instead, whose code does not know how many there are (``bodies``).

Training needs derivatives: the graph is differentiated as it stands (``differentiation``), and one
library gives residuals, gradients and Jacobians (``adjoint_source``, ``residual``); what is made of
these for Levenberg-Marquardt has a library of its own, the same for all models
(``symmetric_matrix``).

On a GPU the same graph becomes CUDA (``gpu``): a thread there is what a lane is here.

Formulas of systems become machine code the same way (``formulas``), for whoever steps them.
Names are imported when they are first used: what formulas need is there without torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from vpintegrator.errors import InputError
from vpintegrator.native import NotCompilable, NotWorthIt

if TYPE_CHECKING:
    from vpintegrator.compiled.model import CompiledModel, compile_model
    from vpintegrator.compiled.residual import CompiledResidual, compile_residual
    from vpintegrator.compiled.symmetric_matrix import SymmetricMatrix

_MODULES = {
    "CompiledModel": "model",
    "CompiledResidual": "residual",
    "SymmetricMatrix": "symmetric_matrix",
    "compile_model": "model",
    "compile_residual": "residual",
}

__all__ = [
    "CompiledModel",
    "CompiledResidual",
    "NotCompilable",
    "NotWorthIt",
    "SymmetricMatrix",
    "compile_model",
    "compile_residual",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def wanted_on(device: str, compiled: bool | str | None) -> bool | None:
    """Return whether machine code is wanted on a device: True, False, or None where it pays.

    Kernels for GPUs have not been measured on a GPU: only ``compiled="gpu"`` takes them.

    Parameters
    ----------
    device
        Type of the device of a model, such as ``cpu`` or ``cuda``.
    compiled
        True, False, None or "gpu", as users give it.

    Raises
    ------
    InputError
        If "gpu" is given for the CPU, or True elsewhere.
    """
    if compiled not in (True, False, None, "gpu"):
        raise InputError(f"compiled must be True, False, None or 'gpu', not {compiled!r}")
    if compiled == "gpu":
        if device == "cpu":
            raise InputError("compiled = gpu is for models on a GPU; take --device cuda")
        return True
    if device == "cpu":
        return None if compiled is None else bool(compiled)
    if compiled:
        raise InputError(
            f"on {device} models run in PyTorch; kernels of this package, which no GPU has "
            "measured yet, are compiled = gpu"
        )
    return False
