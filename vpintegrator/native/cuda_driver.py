"""Driver of NVIDIA's GPUs: loads binaries and launches kernels on PyTorch's stream."""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from vpintegrator.errors import InputError
from vpintegrator.native.compiler import NotCompilable

_NAMES = ("nvcuda.dll",) if sys.platform == "win32" else ("libcuda.so.1", "libcuda.so")
_OUT_OF_MEMORY = 2


class CudaError(InputError):
    """Failure of a call of the CUDA driver."""


class CudaModule:
    """The kernels of a binary, on one GPU.

    Parameters
    ----------
    binary
        Machine code from NVRTC, see ``nvrtc.CudaCompilation``.
    device
        Number of the GPU, as PyTorch counts them.

    Raises
    ------
    NotCompilable
        If there is no driver, or it cannot load the binary.
    """

    def __init__(self, binary: bytes, device: int) -> None:
        self._driver = _driver()
        self._functions: dict[str, ctypes.c_void_p] = {}
        self._module = ctypes.c_void_p()
        try:
            self._context = self._driver.primary_context(device)
            with self._current():
                self._driver.call("cuModuleLoadData", ctypes.byref(self._module), binary)
        except CudaError as error:
            raise NotCompilable(str(error)) from error

    def launch(
        self, name: str, blocks: int, threads: int, stream: int, arguments: Sequence[ctypes._CData]
    ) -> None:
        """Let a kernel run, without waiting for it.

        Parameters
        ----------
        name
            The kernel.
        blocks, threads
            Number of blocks, and of threads in each block.
        stream
            PyTorch's, by its address.
        arguments
            Numbers and addresses.

        Raises
        ------
        CudaError
            If the GPU cannot, for lack of memory, say.
        """
        addresses = (ctypes.c_void_p * len(arguments))(*map(ctypes.addressof, arguments))
        with self._current():
            function = self._functions.get(name)
            if function is None:
                function = self._functions[name] = ctypes.c_void_p()
                self._driver.call(
                    "cuModuleGetFunction", ctypes.byref(function), self._module, name.encode()
                )
            sizes = (blocks, 1, 1, threads, 1, 1, 0)
            self._driver.call(
                "cuLaunchKernel",
                function,
                *map(ctypes.c_uint, sizes),
                ctypes.c_void_p(stream),
                addresses,
                None,
            )

    def copy_to(self, name: str, source: int, size: int, stream: int) -> None:
        """Copy so many bytes of the GPU's memory to a variable of the binary, without waiting.

        Raises
        ------
        CudaError
            If the variable is smaller, or not there.
        """
        place, room = ctypes.c_uint64(), ctypes.c_size_t()
        with self._current():
            self._driver.call(
                "cuModuleGetGlobal_v2",
                ctypes.byref(place),
                ctypes.byref(room),
                self._module,
                name.encode(),
            )
            if size > room.value:
                raise CudaError(f"the GPU's {name} has {room.value} bytes, not {size}")
            self._driver.call(
                "cuMemcpyDtoDAsync_v2",
                place,
                ctypes.c_uint64(source),
                ctypes.c_size_t(size),
                ctypes.c_void_p(stream),
            )

    def close(self) -> None:
        """Give the memory of the kernels back."""
        if self._module:
            with suppress(CudaError), self._current():
                self._driver.call("cuModuleUnload", self._module)
            self._module = ctypes.c_void_p()

    @contextmanager
    def _current(self) -> Iterator[None]:
        """Have PyTorch's context of this GPU in this thread."""
        self._driver.call("cuCtxPushCurrent_v2", self._context)
        try:
            yield
        finally:
            self._driver.call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))


class _Driver:
    """The functions of the driver's library."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self._contexts: dict[int, ctypes.c_void_p] = {}
        self.call("cuInit", ctypes.c_uint(0))

    def primary_context(self, device: int) -> ctypes.c_void_p:
        """Return the context of a GPU that PyTorch uses."""
        if device not in self._contexts:
            number, context = ctypes.c_int(), ctypes.c_void_p()
            self.call("cuDeviceGet", ctypes.byref(number), ctypes.c_int(device))
            self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), number)
            self._contexts[device] = context
        return self._contexts[device]

    def call(self, name: str, *arguments: object) -> None:
        """Call a function that gives 0, or the number of an error."""
        failed = getattr(self._library, name)(*arguments)
        if failed == _OUT_OF_MEMORY:
            raise CudaError("the GPU has no memory left: take fewer trajectories at once")
        if failed:
            text = ctypes.c_char_p()
            self._library.cuGetErrorString(failed, ctypes.byref(text))
            said = (text.value or b"").decode() or f"error {failed}"
            raise CudaError(f"the GPU failed ({name}): {said}")


@functools.cache
def _driver() -> _Driver:
    for name in _NAMES:
        with suppress(OSError):
            library = ctypes.CDLL(name)
            break
    else:
        raise NotCompilable("the driver of NVIDIA's GPUs (libcuda) was not found")
    try:
        return _Driver(library)
    except CudaError as error:
        raise NotCompilable(str(error)) from error
