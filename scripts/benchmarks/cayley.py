"""The Cayley transform, forward and backward, against torch.linalg.solve.

    python scripts/benchmarks/cayley.py

The first table is of ``cayley(C)``, the second of ``cayley_increment(C, X)``, which is what layers
use, the third of a training step of an eager model with and without the compiled transforms. The
peers: torch.linalg.solve(I + C, I - C) with its own derivative, and this package's formulas in
PyTorch, which are what runs where there is no C++ compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from unittest.mock import patch

import click
from harness import (
    bandwidth,
    benchmark,
    duration,
    least_seconds,
    machine,
    name_of,
    peak,
    print_table,
    ratio,
    time_together,
)

# isort: split

import torch

import vpintegrator as vp
from vpintegrator.nn import cayley_kernel
from vpintegrator.nn.cayley import CLOSED_FORM, cayley, cayley_increment

SIZES = (2, 3, 4, 5, 8, 16, 24, 32)
DIM = 3  # of windows
DTYPES = (torch.float64, torch.float32)
PEERS = ["linalg.solve", "in PyTorch", "compiled", "solve / compiled", "PyTorch / compiled"]


@benchmark(seconds=3.0)
@click.option("--matrices", default=16384, show_default=True, help="In a batch.")
def main(seconds: float, threads: int, quick: bool, matrices: int) -> None:
    """The Cayley transform, forward and backward, against torch.linalg.solve."""
    torch.manual_seed(0)
    click.echo(machine() + "\n")
    sizes = SIZES[1::3] if quick else SIZES
    batch = 64 if quick else matrices
    for title, row in (
        (f"cayley(C) and its gradient, {batch:,} matrices", transform),
        (f"cayley_increment(C, X) and its gradients, {batch:,} windows of dim {DIM}", increment),
    ):
        rows = [row(size, batch, dtype, seconds) for size in sizes for dtype in DTYPES]
        print_table(title, ["window", "dtype", *PEERS, "roofline", "of it"], rows, _notes())
    rows = [step(window, batch, dtype, seconds) for window in sizes[:4] for dtype in DTYPES]
    title = f"Loss and gradient of an eager VolumePreservingTransformer, {batch:,} windows"
    columns = ["window", "dtype", "in PyTorch", "compiled transforms", "ratio"]
    print_table(title, columns, rows, ["dim 3, depth 2, width 16, the default layers."])


def transform(size: int, batch: int, dtype: torch.dtype, seconds: float) -> list[str]:
    """A row for C -> L and G -> dC."""
    C = _skew(size, batch, dtype)
    G = torch.randn_like(C)

    def differentiate(f: Callable[[torch.Tensor], torch.Tensor]) -> None:
        argument = C.detach().requires_grad_()
        f(argument).backward(G)

    # one product of matrices or an elimination forward, three products or two backward
    operations = (8 if size <= CLOSED_FORM else 6) * size**3
    return _row(
        size,
        dtype,
        lambda: differentiate(_solve),
        lambda: differentiate(cayley),
        batch * operations,
        batch * 5 * size**2 * C.element_size(),
        seconds,
    )


def increment(size: int, batch: int, dtype: torch.dtype, seconds: float) -> list[str]:
    """A row for C, X -> Y and G -> dC, dX."""
    C = _skew(size, batch, dtype)
    X = torch.randn(batch, size, DIM, dtype=dtype)
    G = torch.randn_like(X)

    def differentiate(f: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
        arguments = C.detach().requires_grad_(), X.detach().requires_grad_()
        f(*arguments).backward(G)

    product = 2 * size**2 * DIM
    closed = size <= CLOSED_FORM
    operations = 7 * product if closed else 5 * product + 2 * size**3
    arrays = (3 if closed else 5) * size**2 + 6 * size * DIM
    return _row(
        size,
        dtype,
        lambda: differentiate(lambda C, X: _solve(C).mT @ X - X),
        lambda: differentiate(cayley_increment),
        batch * operations,
        batch * arrays * C.element_size(),
        seconds,
    )


def step(window: int, batch: int, dtype: torch.dtype, seconds: float) -> list[str]:
    """A row for the loss and the gradient of a model."""
    model = vp.models.VolumePreservingTransformer(
        dim=3, window=window, depth=2, width=16, dtype=dtype
    )
    windows = torch.randn(batch, window, 3, dtype=dtype)

    def differentiate() -> None:
        model.zero_grad()
        (model(windows) - windows).square().mean().backward()

    times = time_together(
        {"PyTorch": lambda: _in_pytorch(differentiate), "compiled": differentiate}, seconds
    )
    before, after = times["PyTorch"], times["compiled"]
    return [f"{window}", name_of(dtype), duration(before), duration(after), ratio(before, after)]


def _row(
    size: int,
    dtype: torch.dtype,
    solve: Callable[[], None],
    ours: Callable[[], None],
    operations: float,
    bytes_moved: float,
    seconds: float,
) -> list[str]:
    times = time_together(
        {"solve": solve, "PyTorch": lambda: _in_pytorch(ours), "compiled": ours}, seconds
    )
    compiled, least = times["compiled"], least_seconds(operations, bytes_moved, dtype)
    return [
        f"{size}",
        name_of(dtype),
        *(duration(times[name]) for name in ("solve", "PyTorch", "compiled")),
        ratio(times["solve"], compiled),
        ratio(times["PyTorch"], compiled),
        duration(least),
        f"{least / compiled:.0%}",
    ]


def _skew(size: int, batch: int, dtype: torch.dtype) -> torch.Tensor:
    C = torch.randn(batch, size, size, dtype=dtype)
    return C - C.mT


def _solve(C: torch.Tensor) -> torch.Tensor:
    one = torch.eye(C.shape[-1], dtype=C.dtype)
    return torch.linalg.solve(one + C, one - C)


def _in_pytorch(call: Callable[[], None]) -> None:
    """Call without the compiled transforms."""
    with patch.object(cayley_kernel, "usable", return_value=False):
        call()


def _notes() -> list[str]:
    rates = ", ".join(f"{peak(dtype) / 1e9:.0f} Gflop/s in {name_of(dtype)}" for dtype in DTYPES)
    return [f"Roofline: {rates} and {bandwidth() / 1e9:.0f} GB/s, measured; caches are faster."]


if __name__ == "__main__":
    main()
