"""Rollouts of the published transformer: compiled, in jax.lax.scan, and eager.

    python scripts/benchmarks/rollout.py

The network is the volume-preserving transformer of arXiv 2312.11166 (window 3, three units, 33
layers, 180 parameters), its weights small, so that a rollout stays bounded and what is compared are
roundings. A time is that of one call of the network for all trajectories, three new states each;
rollouts are of 200 calls for many trajectories (t = 120 of the rigid body) and of 2,000 for one.
The roofline counts the operations that the network needs, 30 for a tanh, and the states written.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

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

import numpy as np
import torch

from vpintegrator.compiled import CompiledModel
from vpintegrator.models import VolumePreservingTransformer

DTYPES = (torch.float32, torch.float64)
WEIGHTS = 0.02  # times those that a network starts from
ORBITS = 1000


def published(dtype: torch.dtype) -> VolumePreservingTransformer:
    torch.manual_seed(0)
    model = VolumePreservingTransformer.published(3, weighting="arbitrary", dtype=dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= WEIGHTS
    return model.eval()


def first_windows(count: int, dtype: torch.dtype) -> torch.Tensor:
    states = torch.randn(count, 3, dtype=dtype, generator=torch.Generator().manual_seed(0))
    return (states / states.norm(dim=1, keepdim=True))[:, None].expand(-1, 3, -1).contiguous()


def iterate(
    model: Callable[[torch.Tensor], torch.Tensor], windows: torch.Tensor, calls: int
) -> Any:
    """As a user of PyTorch would."""
    states = []
    with torch.inference_mode():
        for _ in range(calls):
            windows = model(windows)
            states.append(windows)
        return torch.cat(states, dim=1)


class Case:
    """Rollouts of one network for a number of trajectories: candidates and what they need.

    Attributes
    ----------
    candidates
        Name to a rollout and the number of calls in it.
    """

    def __init__(self, dtype: torch.dtype, trajectories: int, calls: int, inductor: bool) -> None:
        self.title = f"{trajectories:,}, {name_of(dtype)}"
        self.candidates: dict[str, tuple[Callable[[], object], int]] = {}
        model, windows = published(dtype), first_windows(trajectories, dtype)
        eager_calls = min(calls, 50)
        self._expected = iterate(model, windows, eager_calls).numpy()

        compiled = CompiledModel(model, trajectories)
        array = windows.numpy()
        self._check("ours", compiled.predict(array, eager_calls)[0])
        self.candidates["ours"] = (lambda: compiled.predict(array, calls), calls)
        source = compiled.source
        self.least = trajectories * least_seconds(
            source.operations + TANH * source.functions, array[0].nbytes, dtype
        )
        if find_spec("jax"):
            self._jax(model, array, calls, eager_calls)
        self.candidates["eager"] = (lambda: iterate(model, windows, eager_calls), eager_calls)
        if inductor:
            fused = torch.compile(model)
            self.candidates["torch.compile"] = (
                lambda: iterate(fused, windows, eager_calls),
                eager_calls,
            )

    def _jax(
        self, model: VolumePreservingTransformer, array: np.ndarray, calls: int, checked: int
    ) -> None:
        import jax
        from jax_transformer import rollout

        last = jax.numpy.asarray(np.ascontiguousarray(array.transpose(1, 2, 0)))
        run = jax.jit(rollout(model, calls)).lower(last).compile()
        states = np.asarray(run(last))[:checked].transpose(3, 0, 1, 2)
        self._check("jax.lax.scan", states.reshape(len(array), -1, 3))
        self.candidates["jax.lax.scan"] = (lambda: run(last).block_until_ready(), calls)

    def _check(self, name: str, states: np.ndarray) -> None:
        error = np.abs(states - self._expected).max() / np.abs(self._expected).max()
        if not error < 1e3 * np.finfo(states.dtype).eps:
            raise click.ClickException(f"{name} differs from the eager module by {error:.1e}")

    def measure(self, seconds: float) -> dict[str, float]:
        """Seconds of a call of the network for all trajectories."""
        spent = time_together({name: run for name, (run, _) in self.candidates.items()}, seconds)
        return {name: spent[name] / calls for name, (_, calls) in self.candidates.items()}


@benchmark(seconds=8.0)
@click.option("--inductor", is_flag=True, help="Also torch.compile, call by call (a minute more).")
def main(seconds: float, threads: int, quick: bool, inductor: bool) -> None:
    """Compare rollouts of the published transformer: ours, JAX and PyTorch."""
    if quick:
        seconds = 0.0
    many = 40 if quick else ORBITS
    sizes = [(many, 5 if quick else 200), (1, 20 if quick else 2000)]
    rows, notes = [], ["every result agrees with the eager module to rounding"]
    peers = ["jax.lax.scan"] if find_spec("jax") else []
    peers += ["eager", *(["torch.compile"] if inductor else [])]
    for trajectories, calls in sizes:
        for dtype in DTYPES[: 1 if quick else None]:
            case = Case(dtype, trajectories, calls, inductor)
            spent = case.measure(seconds)
            ours = spent["ours"]
            row = [case.title, duration(ours), *(duration(spent[peer]) for peer in peers)]
            row += [ratio(spent[peer], ours) for peer in peers]
            rows.append([*row, f"{case.least / ours:.0%}"])
    columns = ["trajectories", "ours", *peers, *(f"by {peer}" for peer in peers), "of roofline"]
    if not find_spec("jax"):
        notes.append("jax is left out: it is not installed (pip install vpintegrator[bench])")
    print_table("Rollout, a call of the network", columns, rows, [*notes, machine()])


if __name__ == "__main__":
    main()
