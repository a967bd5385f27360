"""Cayley transforms of many small matrices on the CPU by machine code, see ``cayley.cpp``.

LAPACK takes matrices one at a time, which for small ones is nearly all overhead. Here as many as a
vector register has lanes are transformed at once, close to the time it takes to copy them. The
machine's C++ compiler makes the code when it is first needed, in a second or two, and keeps it.

The functions here are differentiated by PyTorch's plain reverse mode, as often as one likes. What
else there is (``torch.func``, forward mode, ``torch.compile``, tracing) sees through operations of
PyTorch alone, so that ``usable`` is false there.
"""

from __future__ import annotations

import ctypes
import functools
import warnings
from importlib.resources import files
from typing import Any

import torch
from torch.autograd.forward_ad import unpack_dual

from vpintegrator.native import NotCompilable, load_library

CLOSED_FORM = 3  # up to this size the transform is a polynomial of C
_FIXED = 5  # up to this size code is made for each, so that matrices stay in registers
_FEWEST = 16  # matrices; with fewer there is little to win, and a compiler need not be started
_LARGEST = 128  # rows; larger matrices leave the caches when several are inverted at once
_REALS = {torch.float64: "double", torch.float32: "float"}
_TENSORS = (torch.Tensor, torch.nn.Parameter)
with torch.inference_mode():
    _PLAIN_KEYS = [torch._C._dispatch_keys(torch.empty(0, device="cpu"))]
with torch.inference_mode(False):
    _PLAIN_KEYS.append(torch._C._dispatch_keys(torch.empty(0, device="cpu")))


def usable(C: torch.Tensor, *others: torch.Tensor) -> bool:
    """Whether the functions here take these tensors, and win."""
    if torch.compiler.is_compiling() or not 1 < C.shape[-1] <= _LARGEST:
        return False
    return (
        C.numel() >= _FEWEST * C.shape[-1] ** 2
        and C.dtype in _REALS
        and all(_is_plain(tensor) and tensor.dtype == C.dtype for tensor in (C, *others))
        and not torch._C._are_functorch_transforms_active()
        and not torch._C._len_torch_dispatch_stack()
        and not torch.jit.is_tracing()
        and not torch.is_autocast_enabled("cpu")
        and _library(_fixed(C)) is not None
    )


def cayley(C: torch.Tensor) -> torch.Tensor:
    """Return the Cayley transform of C (..., n, n)."""
    if C.requires_grad and torch.is_grad_enabled():
        return _Cayley.apply(C)
    return _transform(C)


def cayley_increment(C: torch.Tensor, X: torch.Tensor, closed: bool) -> torch.Tensor:
    """cayley(C)^T X - X for C (..., n, n) and X (..., n, d); ``closed`` for the closed form."""
    if (C.requires_grad or X.requires_grad) and torch.is_grad_enabled():
        return _Increment.apply(C, X, closed)
    return _increment(C, X, None, closed)


class _Cayley(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, C: torch.Tensor) -> torch.Tensor:
        L = _transform(C)
        ctx.save_for_backward(C if C.shape[-1] <= CLOSED_FORM else L)
        return L

    @staticmethod
    def backward(ctx: Any, G: torch.Tensor) -> torch.Tensor:
        (saved,) = ctx.saved_tensors
        n = saved.shape[-1]
        if usable(saved, G) and not torch.is_grad_enabled():
            saved, G = saved.contiguous(), G.contiguous()
            dC = torch.empty_like(saved)
            _call("cayley_gradient", saved, (saved, G, dC), n)
            return dC
        # the same in PyTorch, where it is itself to be differentiated
        if n > CLOSED_FORM:
            shifted = (_identity(saved) + saved).mT
            return -0.5 * shifted @ G @ shifted
        C, CT = saved, saved.mT
        f = closed_form_factor(C)
        share = 0.5 * f * f * (G * (C - C @ C)).sum((-2, -1), keepdim=True)
        return share * C - f * (G - G @ CT - CT @ G)


class _Increment(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, C: torch.Tensor, X: torch.Tensor, closed: bool) -> torch.Tensor:
        inverse = None if closed else torch.empty_like(C, memory_format=torch.contiguous_format)
        Y = _increment(C, X, inverse, closed)
        ctx.save_for_backward(C, X, Y, inverse)
        ctx.closed = closed
        return Y

    @staticmethod
    def backward(ctx: Any, G: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
        C, X, Y, inverse = ctx.saved_tensors
        if usable(C, X, Y, G) and not torch.is_grad_enabled():
            C, X, G = C.contiguous(), X.contiguous(), G.contiguous()
            dC, dX = torch.empty_like(C), torch.empty_like(X)
            sizes = (*X.shape[-2:], int(ctx.closed))
            _call("increment_gradient", C, (C, X, Y, inverse, G, dC, dX), *sizes)
            return dC, dX, None
        CT = C.mT
        if ctx.closed:
            f, U = closed_form_factor(C), C @ X
            dU = f * (G + CT @ G)
            share = 0.5 * f * (G * Y).sum((-2, -1), keepdim=True)
            return f * G @ U.mT + dU @ X.mT - share * C, CT @ dU, None
        # not the inverse that was kept: this one is a differentiable function of C
        W = torch.linalg.inv_ex(_identity(C) - C).inverse.mT @ G
        return W @ (Y + 2 * X).mT, 2 * CT @ W, None


def closed_form_factor(C: torch.Tensor) -> torch.Tensor:
    """Return 2 / (1 + |c|^2) with |c|^2 = |C|_F^2 / 2, shaped to multiply matrices."""
    return 2 / (1 + 0.5 * (C * C).sum((-2, -1), keepdim=True))


def _transform(C: torch.Tensor) -> torch.Tensor:
    C = C.contiguous()
    L = torch.empty_like(C)
    _call("cayley", C, (C, L), C.shape[-1])
    return L


def _increment(
    C: torch.Tensor, X: torch.Tensor, inverse: torch.Tensor | None, closed: bool
) -> torch.Tensor:
    C, X = C.contiguous(), X.contiguous()
    Y = torch.empty_like(X)
    _call("increment", C, (C, X, Y, inverse), *X.shape[-2:], int(closed))
    return Y


def _call(name: str, C: torch.Tensor, arrays: tuple[torch.Tensor | None, ...], *sizes: int) -> None:
    """Call a function of cayley.cpp with arrays, the number of matrices, and sizes."""
    function = getattr(_library(_fixed(C)), f"{name}_{_REALS[C.dtype]}")
    pointers = [ctypes.c_void_p(a.data_ptr() if a is not None else None) for a in arrays]
    matrices = C.numel() // C.shape[-1] ** 2
    function(*pointers, *map(ctypes.c_long, (matrices, *sizes)))


def _fixed(C: torch.Tensor) -> int:
    """Return the size for which code is made, 0 for all larger ones."""
    return C.shape[-1] if C.shape[-1] <= _FIXED else 0


@functools.cache
def _library(size: int) -> ctypes.CDLL | None:
    source = files("vpintegrator.nn").joinpath("cayley.cpp").read_text(encoding="utf-8")
    try:
        return load_library(f"#define SIZE {size}\n{source}")
    except NotCompilable as reason:
        warnings.warn(f"Cayley transforms run in PyTorch, not compiled: {reason}", stacklevel=5)
        return None


def _identity(C: torch.Tensor) -> torch.Tensor:
    return torch.eye(C.shape[-1], dtype=C.dtype, device=C.device)


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether it is numbers in the memory of the CPU and nothing else."""
    return (
        type(tensor) in _TENSORS
        and tensor.numel() > 0
        and torch._C._dispatch_keys(tensor) in _PLAIN_KEYS
        and unpack_dual(tensor).tangent is None
    )
