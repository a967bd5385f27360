"""Kernels for GPUs as plain C++: blocks and threads one after another."""

import ctypes

from vpintegrator.compiled.gpu.kernels import BLOCK, Kernels
from vpintegrator.compiled.source import header
from vpintegrator.native import Compilation


class HostKernels(Kernels):
    """Kernels of the same source on the CPU: blocks and threads one after another."""

    warp = 1

    def __init__(self, source, worth=lambda seconds, cached: True):
        self._compilation = Compilation([host_text(source)], worth)
        self._library = None

    def load(self):
        """Wait for the compiler, and load the library."""
        self._library = self._compilation.library()

    def _launch(self, name, blocks, arguments):
        addresses = (ctypes.c_void_p * len(arguments))(*map(ctypes.addressof, arguments))
        launcher = getattr(self._library, f"launch_{name}")
        launcher(ctypes.c_uint(blocks), ctypes.c_uint(BLOCK), addresses)


def host_text(source):
    """Return the source as plain C++, with a function ``launch_NAME`` for each kernel."""
    launchers = [f"LAUNCHER({name})" for name in source.kernels]
    return "\n".join([header("gpu/host.h"), source.text, *launchers])
