"""Models as files that other programs run: C without dependencies.

The module itself can be called: ``vpintegrator.export(model, path)`` is the function :func:`export`
of this module. C comes from the same graph of scalar operations as the machine code that rollouts
run (``compiled``), with the weights as numbers in it (``c_program``, ``c_functions``,
``c_interface``, ``c_source``), and is compared with PyTorch before it is written (``c_library``).
"""

from vpintegrator.export.exporting import Exported, export
from vpintegrator.runtime.callable_module import make_callable as _make_callable

__all__ = ["Exported", "export"]

_make_callable(__name__)
