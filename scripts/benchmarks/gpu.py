"""A GPU beside machine code on the processor: epochs of training, and rollouts of many windows.

    python scripts/benchmarks/gpu.py
    python scripts/benchmarks/gpu.py --device cpu --quick    # PyTorch on the processor: a try-out

An epoch is one step of Adam on 16,384 windows of three states; a rollout takes 100,000 windows at
once through ten calls. Weights are random, of size 0.1. Both sides compute in double precision,
and the command fails where rollouts or gradients differ by more than 1e-12 of their largest entry.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import click
from harness import benchmark, duration, machine, print_table, ratio, time_together

# isort: split

import torch

import vpintegrator as vp
from vpintegrator.compiled import CompiledResidual, machine_code
from vpintegrator.data.pairs import Pairs
from vpintegrator.errors import InputError
from vpintegrator.training.optimizers import Adam

MODELS = ("vpt", "vpmt", "transformer")
WINDOW, CALLS = 3, 10
TOLERANCE = 1e-12


class Side(NamedTuple):
    """A map that rolls out windows on its device, and an optimizer with one batch of all pairs."""

    map: vp.Map
    windows: torch.Tensor
    optimizer: Adam

    def epoch(self) -> None:
        """Do one step of Adam, whose sums of squares wait for the device."""
        self.optimizer.epoch(0.0)

    def rollout(self) -> torch.Tensor:
        """Return states (window, time, dim) of some calls."""
        steps = WINDOW - 1 + CALLS * WINDOW
        states = torch.as_tensor(
            vp.rollout(self.map, self.windows, steps, compiled=False, progress=False)
        )
        wait(states.device)
        return states

    def gradient(self) -> torch.Tensor:
        """Return the gradient of the squares of all pairs by the parameters."""
        pairs = self.optimizer.pairs
        residuals = self.optimizer.residuals
        (pair,) = pairs.batches(len(pairs), torch.Generator().manual_seed(0))
        return residuals.gradient(residuals.read(), pair.to(residuals.model.scale))[1]


def wait(device: torch.device) -> None:
    """Wait for what a device was given to do."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def sides(name: str, device: str, epoch: int, rollout: int) -> tuple[Side, Side]:
    """Return machine code on the processor, and PyTorch on the device, with the same weights."""
    torch.manual_seed(0)
    system = vp.load_system("rigid-body")
    model = vp.models.build(system, name, {"window": WINDOW}, reversible=False)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.1 * torch.randn_like(weight)
    model.eval()
    windows = torch.randn(rollout, WINDOW, 3, dtype=torch.float64)
    windows /= windows.norm(dim=-1, keepdim=True)
    inputs = windows[:epoch] if epoch <= rollout else windows.repeat(-(-epoch // rollout), 1, 1)
    inputs = inputs[:epoch].clone()  # (window, time, dim)
    with torch.no_grad():
        targets = model(inputs) + 1e-2 * torch.randn_like(inputs)
    pairs = Pairs.of_tensors(inputs, targets)
    there = copy.deepcopy(model).to(device)
    options: dict[str, Any] = {"batch": epoch, "generator": torch.Generator().manual_seed(0)}
    residual = CompiledResidual(model, torch.ones(3).numpy())
    adam = Adam(model, pairs, compiled=residual, **options)
    code = machine_code(model, windows.numpy(), compiled=True)
    return Side(code, windows, adam), Side(there, windows.to(device), Adam(there, pairs, **options))


def difference(one: torch.Tensor, other: torch.Tensor) -> float:
    """Return the largest difference, in units of the largest entry."""
    return float((one - other.cpu()).abs().max() / one.abs().max())


@benchmark(seconds=5.0)
@click.option("--device", default="cuda", show_default=True, help="Device of PyTorch.")
def main(seconds: float, threads: int, quick: bool, device: str) -> None:
    """Compare a GPU with machine code on the processor."""
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise InputError(f"PyTorch finds no GPU for --device {device}; --device cpu is a try-out")
    epoch, rollout = (64, 50) if quick else (16_384, 100_000)
    rows = []
    largest = 0.0
    for name in MODELS:
        code, torch_side = sides(name, device, epoch, rollout)
        apart = {
            "epoch": difference(code.gradient(), torch_side.gradient()),
            "rollout": difference(code.rollout(), torch_side.rollout()),
        }
        largest = max(largest, *apart.values())
        for work in ("epoch", "rollout"):
            calls = {"code": getattr(code, work), "torch": getattr(torch_side, work)}
            spent = time_together(calls, 0.0 if quick else seconds)
            times = [duration(spent["code"]), duration(spent["torch"])]
            rows.append(
                [name, work, *times, ratio(spent["code"], spent["torch"]), f"{apart[work]:.1e}"]
            )
    columns = ["model", "work", "machine code", device, "ratio", "difference"]
    title = f"Epochs of {epoch:,} windows, {CALLS} calls of {rollout:,} windows, float64"
    print_table(title, columns, rows, [machine()])
    if not largest <= TOLERANCE:
        raise InputError(f"both sides differ by {largest:.1e}, more than {TOLERANCE:g}")


if __name__ == "__main__":
    main()
