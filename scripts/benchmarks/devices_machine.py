"""The device that candidates run on: how to wait for it, and what it can do at most."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

# or JAX takes three quarters of the memory of a GPU, and nothing is left for the others
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import harness
import numpy as np
import torch

from vpintegrator.compiled import NotCompilable
from vpintegrator.compiled.gpu.kernels import kernels_for
from vpintegrator.compiled.gpu.source import GpuSource, prelude
from vpintegrator.errors import InputError

_SHARE = 12  # of the memory of a GPU that the states of a rollout may take: others need some, too
_ON_A_CPU = 1 << 26  # bytes
_THREADS, _ROUNDS, _SUMS = 2048, 1 << 14, 8  # of a processor, of each, and side by side
_SIZE = 8192  # of the matrices whose product shows the peak
_COPIED = 1 << 30  # bytes
_TIMES = 9

# enough sums at the same time that none waits for the one before
_MULTIPLY_ADD = """
extern "C" __global__ void multiply_add(real *numbers, whole rounds) {
    const real factor = numbers[thread_number()], term = factor * 2;
    real sum[SUMS];
    _Pragma("unroll") for (int i = 0; i < SUMS; i++) sum[i] = factor + i;
    for (whole n = 0; n < rounds; n++)
        _Pragma("unroll") for (int i = 0; i < SUMS; i++) sum[i] = sum[i] * factor + term;
    real total = 0;
    _Pragma("unroll") for (int i = 0; i < SUMS; i++) total += sum[i];
    numbers[thread_number()] = total / (4 * SUMS);  // as before: sums go to 2
}
"""


def multiply_adds(dtype: torch.dtype) -> GpuSource:
    """A kernel that multiplies and adds numbers in registers, and does nothing else."""
    real = {torch.float32: "float", torch.float64: "double"}[dtype]
    text = prelude(real, short=True) + f"\n#define SUMS {_SUMS}\n{_MULTIPLY_ADD}"
    return GpuSource(text, ("multiply_add",), 0, 2 * _SUMS, 0)


class Device:
    """A GPU, or the CPU.

    Raises
    ------
    InputError
        If there is no such device.
    """

    def __init__(self, name: str) -> None:
        try:
            self.torch = torch.device(name)
        except RuntimeError as error:
            raise InputError(f"--device: '{name}' is no device of PyTorch") from error
        self.is_gpu = self.torch.type == "cuda"
        if self.is_gpu and not torch.cuda.is_available():
            raise InputError(
                f"--device {name}: PyTorch finds no GPU on this machine; --device cpu runs the "
                "same rows, small, to try the command out"
            )
        if not self.is_gpu and self.torch.type != "cpu":
            raise InputError(f"--device: '{name}' is neither cpu nor cuda")
        if self.is_gpu:
            torch.cuda.set_device(self.torch)
            # products of float32 are of float32
            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False

    @property
    def room(self) -> int:
        """Bytes that the states of a rollout may take."""
        if not self.is_gpu:
            return _ON_A_CPU
        return int(torch.cuda.get_device_properties(self.torch).total_memory) // _SHARE

    def wait(self) -> None:
        """Until all work of PyTorch and of machine code is done."""
        if self.is_gpu:
            torch.cuda.synchronize(self.torch)

    def waited(self, call: Callable[[], Any]) -> Callable[[], Any]:
        """The same, which returns when the device is done."""

        def run() -> Any:
            found = call()
            self.wait()
            return found

        return run

    def seconds(self, call: Callable[[], Any]) -> float | None:
        """Median seconds that work takes on the device, by its own clock; None on a CPU."""
        if not self.is_gpu:
            return None
        call()
        spent = []
        for _ in range(_TIMES):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            call()
            end.record()
            end.synchronize()
            spent.append(begin.elapsed_time(end) / 1000)
        return float(np.median(spent))

    def given(self, tensor: torch.Tensor) -> Any:
        """What machine code takes: tensors on a GPU, arrays on a CPU."""
        return tensor.to(self.torch) if self.is_gpu else tensor.numpy()

    def release(self) -> None:
        """Give back what the candidates of a case took."""
        if "torch._dynamo" in sys.modules:
            torch._dynamo.reset()  # it gives up on a function that it has compiled eight times
        if "jax" in sys.modules:
            sys.modules["jax"].clear_caches()
        if self.is_gpu:
            torch.cuda.empty_cache()

    def use_in_jax(self) -> None:
        """Let JAX compute here.

        Raises
        ------
        RuntimeError
            If it is not there, or does not know the device.
        """
        if not find_spec("jax"):
            raise RuntimeError("it is not installed (pip install vpintegrator[bench])")
        import jax

        devices = jax.devices("gpu" if self.is_gpu else "cpu")
        jax.config.update("jax_default_device", devices[self.torch.index or 0])

    @functools.cache  # noqa: B019 there is one device
    def peaks(self, dtype: torch.dtype) -> dict[str, float]:
        """Operations a second by what they were measured with, the larger of which counts."""
        if not self.is_gpu:
            return {"the best of matrix products and multiply-adds": harness.peak(dtype)}
        matrix = torch.ones(_SIZE, _SIZE, dtype=dtype, device=self.torch)
        found = {"a matrix product": 2 * _SIZE**3 / self._shortest(lambda: matrix @ matrix)}
        with contextlib.suppress(NotCompilable):  # which every row says then
            kernels = kernels_for(self.torch, multiply_adds(dtype))
            kernels.load()
            processors = torch.cuda.get_device_properties(self.torch).multi_processor_count
            numbers = torch.full((processors * _THREADS,), 0.5, dtype=dtype, device=self.torch)
            spent = self._shortest(
                lambda: kernels.launch("multiply_add", len(numbers), numbers, _ROUNDS)
            )
            found["multiply-adds in registers"] = len(numbers) * _ROUNDS * 2 * _SUMS / spent
        return found

    @functools.cache  # noqa: B019
    def bandwidth(self) -> float:
        """Bytes a second, read and written, of a copy that fits no cache."""
        if not self.is_gpu:
            return harness.bandwidth()
        source = torch.zeros(_COPIED, dtype=torch.uint8, device=self.torch)
        target = torch.empty_like(source)
        return 2 * _COPIED / self._shortest(lambda: target.copy_(source))

    def _shortest(self, call: Callable[[], Any]) -> float:
        found = [self.seconds(call) for _ in range(3)]
        return min(seconds for seconds in found if seconds is not None)

    def least_seconds(self, operations: float, moved: float, dtype: torch.dtype) -> float:
        """The roofline: no program does so many operations on so many bytes of memory in less."""
        return max(operations / max(self.peaks(dtype).values()), moved / self.bandwidth())

    def limits(self) -> list[str]:
        """What the roofline is made of, for people."""
        lines = []
        for dtype in (torch.float64, torch.float32):
            for what, peak in self.peaks(dtype).items():
                lines.append(f"{harness.name_of(dtype)}: {peak / 1e12:.3g} Tflop/s by {what}")
        return [*lines, f"memory: {self.bandwidth() / 1e9:,.0f} GB/s by a copy"]
