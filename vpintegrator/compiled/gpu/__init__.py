"""Models as machine code for GPUs: one thread has one trajectory, or one window.

The graph of a model (``tracing``) becomes CUDA (``source``) as it becomes C++ for the CPU, with
lanes of width one. NVRTC compiles it at run time, and the driver runs it on PyTorch's memory and
stream (``kernels``, ``native``). The same text is plain C++ with a shim before it (``host.h``),
which shows on any machine what it computes.
"""

from vpintegrator.compiled.gpu.model import GpuModel
from vpintegrator.compiled.gpu.residual import GpuResidual

__all__ = ["GpuModel", "GpuResidual"]
