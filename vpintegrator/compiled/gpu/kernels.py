"""Kernels on a GPU."""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from vpintegrator.native import NotCompilable
from vpintegrator.native.cuda_driver import CudaModule
from vpintegrator.native.nvrtc import CudaCompilation

if TYPE_CHECKING:
    from vpintegrator.compiled.gpu.source import GpuSource

BLOCK = 64  # as in device.h

Worth = Callable[[float, bool], bool]


class Kernels(ABC):
    """The kernels of a source.

    Attributes
    ----------
    warp
        Number of threads in a warp.
    """

    warp: int

    @abstractmethod
    def load(self) -> None:
        """Wait for the compiler, and take what it made.

        Raises
        ------
        NotCompilable
            If it fails.
        """

    def launch(self, name: str, threads: int, *arguments: torch.Tensor | int) -> None:
        """Let a kernel run, in blocks of ``BLOCK`` threads, without waiting for it.

        Parameters
        ----------
        name
            The kernel.
        threads
            At least so many; the last block is whole.
        arguments
            Contiguous tensors on the device, which it gets by their addresses, and whole numbers.
            What is freed after this may be used only by what PyTorch does later.
        """
        given: list[ctypes._CData] = [
            ctypes.c_longlong(a) if isinstance(a, int) else ctypes.c_void_p(address(a))
            for a in arguments
        ]
        if threads:
            self._launch(name, -(-threads // BLOCK), given)

    def compute_constants(self, weights: torch.Tensor, constants: torch.Tensor) -> None:
        """Compute the constants that the other kernels read from the weights."""
        self.launch("constants", BLOCK, weights, constants)

    @abstractmethod
    def _launch(self, name: str, blocks: int, arguments: list[ctypes._CData]) -> None:
        """Let a kernel run."""


class CudaKernels(Kernels):
    """Kernels on a GPU, compiled by NVRTC.

    Raises
    ------
    NotCompilable
        If there is no NVRTC, or compiling is not worth its time.
    """

    warp = 32

    def __init__(
        self, device: torch.device, source: GpuSource, worth: Worth = lambda seconds, cached: True
    ) -> None:
        self._device, self._bank = device, source.bank
        major, minor = torch.cuda.get_device_capability(device)
        self._compilation = CudaCompilation(source.text, 10 * major + minor, worth)
        self._module: CudaModule | None = None

    def load(self) -> None:
        """Wait for NVRTC, and give its binary to the driver."""
        index = self._device.index
        number = torch.cuda.current_device() if index is None else index
        self._module = CudaModule(self._compilation.binary(), number)

    def compute_constants(self, weights: torch.Tensor, constants: torch.Tensor) -> None:
        """Compute the constants, and copy them to the memory for constants."""
        super().compute_constants(weights, constants)
        if self._bank:
            assert self._module is not None
            size = constants.numel() * constants.element_size()
            self._module.copy_to("bank", address(constants), size, self._stream)

    def _launch(self, name: str, blocks: int, arguments: list[ctypes._CData]) -> None:
        assert self._module is not None
        self._module.launch(name, blocks, BLOCK, self._stream, arguments)

    @property
    def _stream(self) -> int:
        return int(torch.cuda.current_stream(self._device).cuda_stream)


def kernels_for(
    device: torch.device, source: GpuSource, worth: Worth = lambda seconds, cached: True
) -> Kernels:
    """Return the kernels of a source for a device.

    Raises
    ------
    NotCompilable
        If there are none for such devices, or the compiler for them is missing.
    """
    if device.type != "cuda":
        raise NotCompilable(f"there is no machine code for devices of the kind {device.type}")
    if torch.version.hip is not None:
        raise NotCompilable("machine code for GPUs is CUDA, and this PyTorch is for ROCm")
    return CudaKernels(device, source, worth)


def address(tensor: torch.Tensor) -> int:
    """Return the address of a contiguous tensor in the memory of its device."""
    assert tensor.is_contiguous()
    return int(tensor.data_ptr())
