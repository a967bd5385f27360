"""Models as machine code: a window is a few thousand operations on numbers, not on tensors.

A model is followed once in PyTorch, every element of every small tensor as a number of its own, to
a graph of scalar operations (``tracing``, ``operations``, ``scalar_graph``). It becomes C++ for as
many trajectories at once as a vector register holds, which loops over the windows (``source``);
the compiler of the machine turns it into a library, kept between programs (``library``). Of
PyTorch's overhead, hundreds of times the arithmetic of such models, nothing is left (``model``).
A map with too many operations for a compiler is a list of these instead, which one library follows
(``tape``).

Every library is compared with PyTorch before it is used; one that gives other numbers is refused
(``verification``).

Training needs derivatives: the graph is differentiated as it stands (``scalar_graph``), and one
library gives residuals, gradients and Jacobians (``source``, ``residual``); what is made of
these for Levenberg-Marquardt has a library of its own, the same for all models
(``symmetric_matrix``).

Formulas of systems and steps of classical methods become machine code the same way
(``step_source``, ``method``, ``trajectories``): without torch, which is imported
when a name that needs it is used.

A model can also be written as one file of C, with its weights as numbers in it (``exporting``).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from vpintegrator.compiled.library import NotCompilable, NotWorthIt
from vpintegrator.compiled.method import CompiledMethod
from vpintegrator.compiled.step_source import obstacle
from vpintegrator.compiled.symmetric_matrix import SymmetricMatrix
from vpintegrator.compiled.trajectories import integrate, machine_code

if TYPE_CHECKING:
    from vpintegrator.compiled.exporting import Exported, export
    from vpintegrator.compiled.model import CompiledModel
    from vpintegrator.compiled.residual import CompiledResidual

_WITH_TORCH = {
    "CompiledModel": "model",
    "CompiledResidual": "residual",
    "Exported": "exporting",
    "export": "exporting",
}

__all__ = [
    "CompiledMethod",
    "CompiledModel",
    "CompiledResidual",
    "Exported",
    "NotCompilable",
    "NotWorthIt",
    "SymmetricMatrix",
    "export",
    "integrate",
    "machine_code",
    "obstacle",
]


def __getattr__(name: str) -> Any:
    if name not in _WITH_TORCH:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_WITH_TORCH[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
