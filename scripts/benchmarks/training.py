"""Training steps in machine code, in PyTorch and in JAX.

    python scripts/benchmarks/training.py

A first-order step is loss, gradient and Adam's update, for a batch of windows; its time is that of
eight in turn, divided by eight. The peers: the eager module with torch.optim.Adam as anybody would
write it; and, for the published transformer, a jitted step of the same network in JAX. An epoch of
the published experiment is eight such steps for the windows of 1,238 orbits. Only our optimizer
shuffles. The last table has the Jacobian of Levenberg-Marquardt (eager: vmap of jacrev, as
torch.func offers it). The roofline counts the operations of a window; a function such as tanh
counts for 30.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import click
from harness import (
    TANH,
    benchmark,
    duration,
    least_seconds,
    machine,
    name_of,
    print_table,
    ratio,
    time_together,
)

# isort: split

import torch

import vpintegrator as vp
from vpintegrator import models
from vpintegrator.compiled import CompiledResidual
from vpintegrator.data.pairs import Pairs
from vpintegrator.models import Model
from vpintegrator.runtime.threads import torch_threads
from vpintegrator.training.optimizers import Adam, LevenbergMarquardt
from vpintegrator.training.residuals import Objective, ParameterVector


def _body() -> torch.Tensor:
    return vp.load_system("rigid-body").reversing_symmetries


STEPS = 8  # of an epoch
PUBLISHED = 14_856  # windows in each: 1,238 orbits of 101 states, window and targets of three

MODELS: dict[str, Callable[..., Model]] = {
    "published vpt": lambda **o: models.VolumePreservingTransformer(
        dim=3,
        prediction_window=3,
        depth=3,
        feed_forward="triangular",
        weighting="arbitrary",
        **o,
    ),
    "vpff": lambda **o: models.VolumePreservingFeedForward(
        dim=3, reversing_symmetries=_body(), **o
    ),
    "vpt": lambda **o: models.VolumePreservingTransformer(
        dim=3, prediction_window=3, reversing_symmetries=_body(), **o
    ),
}


class Case:
    """A model, its residuals compiled, and random windows."""

    def __init__(self, name: str, dtype: torch.dtype, count: int) -> None:
        torch.manual_seed(0)
        self.name, self.dtype, self.count = name, dtype, count
        self.model = MODELS[name](dtype=dtype)
        self.inputs = torch.randn(count, self.model.window, 3, dtype=dtype)
        self.targets = torch.randn(count, self.model.prediction_window, 3, dtype=dtype)
        self.pairs = Pairs.of_tensors(self.inputs, self.targets)
        self.compiled = CompiledResidual(
            *(self.model, self.model.scale.numpy()), threads=torch.get_num_threads()
        )
        self.parameters = sum(p.numel() for p in self.model.parameters())

    def roofline(self, backward: int) -> float:
        """Seconds for all windows there and ``backward`` times back."""
        source = self.compiled.source
        one = source.operations + TANH * source.functions + backward * source.backward
        size = self.inputs.element_size()
        # J^T is written; the windows are read
        written = self.parameters * backward * size if backward > 1 else 0
        moved = self.count * (written + (self.inputs[0].numel() + self.targets[0].numel()) * size)
        return least_seconds(one * self.count, moved, self.dtype)


@benchmark(seconds=5.0)
@click.option(
    "--batch",
    type=click.IntRange(min=1),
    default=16384,
    show_default=True,
    help="Windows of a first-order step.",
)
def main(seconds: float, threads: int, quick: bool, batch: int) -> None:
    """Training steps in machine code, in PyTorch and in JAX."""
    click.echo(machine() + "\n")
    names = ["published vpt"] if quick else ["published vpt", "vpff", "vpt"]
    dtypes = [torch.float64, torch.float32]
    batch, counts = (64, [32]) if quick else (batch, [512, 4096])
    columns = ["model", "dtype", "parameters", "eager", "jax", "compiled", "eager / compiled"]
    columns += ["jax / compiled", "of the roofline"]
    rows = [
        _first_order(Case(name, dtype, batch * STEPS), seconds, STEPS)
        for name in names
        for dtype in dtypes
    ]
    notes = ["of the roofline: the share of the time that arithmetic at the peak of one core takes"]
    print_table(f"A first-order step, {batch:,} windows", columns, rows, notes)
    batch = 64 if quick else PUBLISHED
    row = _first_order(Case("published vpt", torch.float32, batch * STEPS), seconds)
    title = f"An epoch of the published experiment, {batch * STEPS:,} windows in {STEPS} batches"
    print_table(title, columns, [row], notes)

    columns = ["model", "windows", "eager", "compiled", "eager / compiled", "of the roofline"]
    cases = [Case(n, torch.float64, c) for n in names for c in counts]
    rows = [_jacobian(case, seconds) for case in cases]
    print_table("The Jacobian of Levenberg-Marquardt, float64", columns, rows)


def _first_order(case: Case, seconds: float, parts: int = 1) -> list[str]:
    """Return a row of times of an epoch of several steps, or of an equal part of it."""
    batch = case.count // STEPS
    optimizer = Adam(
        case.model,
        case.pairs,
        Objective(),
        batch=batch,
        learning_rate=1e-6,
        generator=torch.Generator().manual_seed(0),
        compiled=case.compiled,
    )
    candidates: dict[str, Callable[[], object]] = {
        "eager": _eager_epoch(case, batch),
        "compiled": lambda: _epoch(optimizer),
    }
    peer = _jax_epoch(case, batch)
    if peer is not None:
        candidates["jax"] = peer
    times = time_together(candidates, seconds)
    found = {name: time / parts for name, time in times.items()}
    least = case.roofline(backward=1) / parts
    return [
        case.name,
        name_of(case.dtype),
        str(case.parameters),
        duration(found["eager"]),
        duration(found["jax"]) if peer else "",
        duration(found["compiled"]),
        ratio(found["eager"], found["compiled"]),
        ratio(found["jax"], found["compiled"]) if peer else "",
        f"{least / found['compiled']:.0%}",
    ]


def _epoch(optimizer: Adam) -> None:
    """Train on all windows once, in random order, with the threads that ``vp.train`` uses."""
    with torch_threads():  # of PyTorch alone
        optimizer.epoch(0.0)


def _eager_epoch(case: Case, batch: int) -> Callable[[], object]:
    torch.manual_seed(0)
    model = MODELS[case.name](dtype=case.dtype)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-6)
    batches = [*zip(case.inputs.split(batch), case.targets.split(batch), strict=True)]

    def epoch() -> None:
        for inputs, targets in batches:
            optimizer.zero_grad()
            (model(inputs) - targets).square().mean().backward()
            optimizer.step()

    return epoch


def _jax_epoch(case: Case, batch: int) -> Callable[[], object] | None:
    """Steps that are one jitted function each; None for other networks."""
    if case.name != "published vpt":
        return None
    try:
        from jax_transformer import adam_step
    except ImportError:
        return None
    step = adam_step(case.model, case.inputs[:batch].numpy(), case.targets[:batch].numpy())

    def epoch() -> None:
        for _ in itertools.repeat(None, STEPS):
            step()

    return epoch


def _jacobian(case: Case, seconds: float) -> list[str]:
    optimizer = LevenbergMarquardt(
        case.model, case.pairs, batch=case.count, generator=torch.Generator().manual_seed(0)
    )
    vector = ParameterVector(case.model).read()

    def eager() -> None:
        for part in zip(
            case.inputs.split(optimizer.block), case.targets.split(optimizer.block), strict=True
        ):
            optimizer.jacobian(vector, *part, None)

    found = time_together({"eager": eager, "compiled": _all_jacobians(case)}, seconds)
    least = case.roofline(backward=case.targets[0].numel())
    return [
        case.name,
        f"{case.count:,}",
        duration(found["eager"]),
        duration(found["compiled"]),
        ratio(found["eager"], found["compiled"]),
        f"{least / found['compiled']:.0%}",
    ]


def _all_jacobians(case: Case) -> Callable[[], None]:
    # training holds its parameters as a vector, too: reading them from the module is not timed
    vector = ParameterVector(case.model).read().numpy()

    def call() -> None:
        for _ in case.compiled.jacobians(vector, case.inputs.numpy(), case.targets.numpy()):
            pass

    return call


if __name__ == "__main__":
    main()
