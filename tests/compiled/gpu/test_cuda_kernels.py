"""Kernels through the driver's interface, whose library is a small one that plays them on the CPU.

What is proven is all between tensors and cuLaunchKernel: contexts, modules, constants, arguments.
"""

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from vpintegrator.compiled import CompiledResidual, compile_model
from vpintegrator.compiled.gpu import GpuModel, GpuResidual, kernels
from vpintegrator.compiled.gpu.kernels import CudaKernels, kernels_for
from vpintegrator.errors import InputError
from vpintegrator.native import NotCompilable, cuda_driver
from vpintegrator.native.compiler import load_library
from vpintegrator.native.cuda_driver import CudaError, CudaModule

from ..conftest import build, windows
from ..test_compiled_residual import problem
from .host import HostKernels
from .test_gpu_models import near

# a module is a library of kernels for the CPU, whose path is the "binary"; launches count, in the
# right context alone, and `fail` makes the next call of any function but the contexts' fail
DRIVER = r"""
#include <dlfcn.h>
#include <cstdint>
#include <cstdio>
#include <cstring>
static int depth = 0, failure = 0, launches = 0, copies = 0, place = 0;
static void *streams = nullptr;
static char bank[65536];
struct Function { void (*launch)(unsigned, unsigned, void **); };
static int failed() { const int f = failure; failure = 0; return depth ? f : 201; }
extern "C" {
void fail(int code) { failure = code; }
int seen_launches() { return launches; }
int seen_copies() { return copies; }
int seen_depth() { return depth; }
void *seen_stream() { return streams; }
int cuInit(unsigned) { return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal + 40; return ordinal > 3 ? 101 : 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) {
    place = device;
    *context = &place;
    return 0;
}
int seen_device() { return place; }
int cuCtxPushCurrent_v2(void *context) { depth += context == &place; return 0; }
int cuCtxPopCurrent_v2(void **context) { *context = &place; depth--; return 0; }
int cuModuleLoadData(void **module, const void *binary) {
    if (const int f = failed()) return f;
    *module = dlopen((const char *)binary, RTLD_NOW);
    return *module ? 0 : 200;
}
int cuModuleUnload(void *) { return failed(); }
int cuModuleGetFunction(void **function, void *module, const char *name) {
    if (const int f = failed()) return f;
    char launcher[100];
    snprintf(launcher, sizeof launcher, "launch_%s", name);
    *function = dlsym(module, launcher);
    return *function ? 0 : 500;
}
int cuModuleGetGlobal_v2(uint64_t *address, size_t *size, void *, const char *name) {
    if (strcmp(name, "bank")) return 500;
    *address = (uint64_t)bank;
    *size = sizeof bank;
    return failed();
}
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t size, void *stream) {
    memcpy((void *)to, (void *)from, size);
    copies++;
    streams = stream;
    return failed();
}
int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned u,
                   unsigned w, unsigned shared, void *stream, void **arguments, void **extra) {
    if (const int f = failed()) return f;
    if (y != 1 || z != 1 || u != 1 || w != 1 || shared || extra) return 1;
    ((void (*)(unsigned, unsigned, void **))function)(x, threads, arguments);
    launches++;
    streams = stream;
    return 0;
}
int cuGetErrorString(int code, const char **text) {
    *text = code == 700 ? "an illegal memory access was encountered" : nullptr;
    return code == 700 ? 0 : 1;
}
}
"""
STREAM = 0x7F0012345678  # more than 32 bits


class _PathOfLibrary:
    """What NVRTC's part is played by: the C++ compiler's library, given by its path."""

    def __init__(self, source, architecture, worth=None):
        assert architecture == 90
        self.source = source

    def binary(self):
        host = HostKernels(self.source)
        host.load()
        return host._library._name.encode() + b"\0"


@pytest.fixture
def driver(monkeypatch):
    """A driver whose GPU is the CPU, and PyTorch's part of it."""
    library = load_library(DRIVER)
    library.seen_stream.restype = ctypes.c_void_p
    made = cuda_driver._Driver(library)
    monkeypatch.setattr(cuda_driver, "_driver", lambda: made)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 2)
    monkeypatch.setattr(
        torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=STREAM)
    )
    monkeypatch.setattr(kernels, "CudaCompilation", _PathOfLibrary)
    monkeypatch.setattr(CudaKernels, "warp", HostKernels.warp)

    def cuda_kernels(device, source, *worth):
        # the source goes on to the compiler that plays NVRTC
        return CudaKernels(torch.device("cuda"), _Whole(source), *worth)

    monkeypatch.setattr(kernels, "kernels_for", cuda_kernels)
    yield library
    assert library.seen_depth() == 0


class _Whole:
    def __init__(self, source):
        self.text, self.bank = source, source.bank


def test_rollouts_and_derivatives(driver):
    model = build("resnet")
    first = windows(model, 70)
    machine = GpuModel(model)
    expected, after = compile_model(model).advance(first.numpy(), 3)
    before = driver.seen_launches()
    states, last = machine.advance(first, 3)
    assert driver.seen_launches() == before + 1
    assert driver.seen_stream() == STREAM
    assert driver.seen_device() == 42  # the current one, 2, by the driver's own number
    near(states, expected, 1e-13)
    near(last, after, 1e-13)
    weights, case = (1 / model.scale).numpy(), problem(model, 2)
    residual = GpuResidual(model, weights, chained=True)
    copies = driver.seen_copies()
    squares, gradient = residual.gradient(*case)
    assert driver.seen_copies() == copies + 1  # of constants, to their own memory
    arrays = [tensor.numpy() for tensor in case]
    true_squares, true_gradient = CompiledResidual(model, weights, chained=True).gradient(*arrays)
    np.testing.assert_allclose(squares, true_squares, rtol=1e-13)
    near(gradient, true_gradient, 1e-12)


def test_errors_of_the_gpu_are_one_sentence(driver):
    model = build("resnet")
    machine, first = GpuModel(model), windows(model, 2)
    for code, message in (
        (2, "the GPU has no memory left: take fewer"),
        (700, "the GPU failed .cuLaunchKernel.: an illegal memory access was encountered"),
        (999, "the GPU failed .cuLaunchKernel.: error 999"),
    ):
        driver.fail(code)
        with pytest.raises(InputError, match=message):
            machine.advance(first, 1)
    machine.advance(first, 1)
    driver.fail(209)
    with pytest.raises(NotCompilable, match=r"cuModuleLoadData.: error 209"):
        GpuModel(model)
    with pytest.raises(NotCompilable, match=r"cuDeviceGet.: error 101"):
        CudaModule(b"", 4)


def test_kernels_and_memory_that_are_not_there(driver):
    model = build("resnet")
    machine = GpuModel(model)
    module = machine._kernels._module
    with pytest.raises(CudaError, match=r"cuModuleGetFunction.: error 500"):
        module.launch("no_such_kernel", 1, 64, 0, [])
    with pytest.raises(CudaError, match="bank has 65536 bytes, not 70000"):
        module.copy_to("bank", 0, 70_000, 0)
    module.close()
    module.close()  # once more does no harm


def test_without_a_driver_there_is_a_reason(monkeypatch):
    monkeypatch.setattr(cuda_driver, "_NAMES", ("libno-such-driver.so",))
    cuda_driver._driver.cache_clear()
    with pytest.raises(NotCompilable, match=r"driver of NVIDIA's GPUs .libcuda. was not found"):
        CudaModule(b"", 0)
    cuda_driver._driver.cache_clear()


def test_pytorch_for_rocm_has_no_machine_code(monkeypatch):
    monkeypatch.setattr(torch.version, "hip", "6.0")
    with pytest.raises(NotCompilable, match="this PyTorch is for ROCm"):
        kernels_for(torch.device("cuda"), None)
