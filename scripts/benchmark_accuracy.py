#!/usr/bin/env python
"""Accuracy at equal seconds of training: our models, the published architecture, and strupnet."""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
import torch
from rich.table import Column, Table

import vpintegrator as vp
from vpintegrator.cli.common import SETTINGS, console, overwrite_option, plain_errors, progress_bar
from vpintegrator.dynamics import System
from vpintegrator.errors import InputError
from vpintegrator.files import check_output, replacing
from vpintegrator.models import (
    Integrator,
    VolumePreservingFeedForward,
    VolumePreservingTransformer,
)

ORBITS = np.array([[0, math.sin(0.9), -math.cos(0.9)], [0, math.sin(1.1), math.cos(1.1)]])
DRIFT_STEPS = (1_000, 10_000, 50_000)
DRIFT_ORBITS = 8


class VolNet(Integrator):
    """strupnet's VolNet: a volume-preserving flow as a product of symplectic ones in two variables.

    With P-SympNets of degree 6 as factors, which got further in tuning than the default R-SympNets.
    """

    name = "volnet"
    description = "strupnet's VolNet"

    def __init__(self, step: float) -> None:
        from strupnet import VolNet as Peer
        from strupnet.vnn import Symp2DStep

        options = {"layers": 8, "max_degree": 6}
        with default_dtype(torch.float64):
            net = Peer(dim=3, **options)
            net.layer_list = torch.nn.ModuleList(
                Symp2DStep(dim=3, method="P", **options) for _ in range(2)
            )
        super().__init__(
            _AtStep(net, step), dim=3, window=1, prediction_window=None, arguments={"step": step}
        )


class _AtStep(torch.nn.Module):
    volume_preserving = True

    def __init__(self, net: torch.nn.Module, step: float) -> None:
        super().__init__()
        self.net, self.step = net, step

    def forward(self, window: torch.Tensor) -> torch.Tensor:
        return self.net(window, self.step)


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """strupnet makes its weights in torch's default precision."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@dataclass(frozen=True)
class Entry:
    """One line of the table: how to make the network, and how to train it."""

    title: str
    make: Callable[[System, float], Integrator]
    optimizer: str = "auto"
    learning_rate: float | None = None


def couplings(system: System, step: float) -> Integrator:
    return VolumePreservingFeedForward(dim=3, reversing_symmetries=system.reversing_symmetries)


def transformer(system: System, step: float) -> Integrator:
    return VolumePreservingTransformer(dim=3, reversing_symmetries=system.reversing_symmetries)


def published(system: System, step: float) -> Integrator:
    """Window 3, depth 3, two blocks, 180 parameters: arXiv 2312.11166, section 6."""
    return VolumePreservingTransformer(
        dim=3,
        depth=3,
        feed_forward="triangular",
        weighting="arbitrary",
        attention_scale=3**-0.5,
    )


ENTRIES = {
    "vpff": Entry("reversible couplings, one step", couplings),
    "vpt": Entry("reversible VPT, window 3", transformer),
    "vpff-adam": Entry("the couplings under Adam", couplings, "adam"),
    "vpt-adam": Entry("the VPT under Adam", transformer, "adam"),
    "published": Entry("published VPT, trained by us", published),
    "volnet": Entry("strupnet VolNet, Adam", lambda _, step: VolNet(step), "adam", 0.03),
}


def measure(name: str, dataset: vp.data.Dataset, seconds: float, steps: int, seed: int) -> dict:
    """Train one entry and run it."""
    entry, system = ENTRIES[name], dataset.system
    torch.manual_seed(seed)
    model = entry.make(system, dataset.step)
    history = vp.train(
        model,
        dataset,
        optimizer=entry.optimizer,
        learning_rate=entry.learning_rate,
        seconds=seconds,
        seed=seed,
    )
    report = vp.compare({name: model}, against=[], initial=ORBITS, time=120.0)
    initial = system.sample_initial(DRIFT_ORBITS, np.random.default_rng(seed))
    window = vp.solve(system, initial, dataset.step * np.arange(model.window))
    states = vp.rollout(model, window, steps)
    with np.errstate(all="ignore"):
        change = np.max(
            [
                np.abs(invariant(states) / invariant(states[:, :1]) - 1).max(0)
                for invariant in system.invariants.values()
            ],
            axis=0,
        )
    change = np.maximum.accumulate(np.where(np.isfinite(change), change, np.inf))
    return {
        "network": name,
        "parameters": history.parameters,
        "epochs": history.epochs,
        "error": history.test_error,
        "RMSE": report.root_mean_square_error(name).tolist(),
        "change": {n: change[n] for n in DRIFT_STEPS if n <= steps},
    }


def cells(row: dict, best: float) -> list[str]:
    return [
        row["network"],
        str(row["parameters"]),
        str(row["epochs"]),
        f"{row['error']:.1e}",
        f"{row['error'] / best:.3g}",
        " / ".join(f"{error:.1e}" for error in row["RMSE"]),
        *(f"{value:.1e}" for value in row["change"].values()),
    ]


@click.command(context_settings=SETTINGS)
@click.option("--seconds", type=float, default=150.0, show_default=True, help="For each network.")
@click.option("--steps", type=int, default=50_000, show_default=True, help="Of the long rollout.")
@click.option("--only", metavar="NAME,...", help=f"Some of: {', '.join(ENTRIES)}.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("accuracy.md"),
    show_default=True,
    help="Markdown file for the table.",
)
@overwrite_option
@plain_errors
def main(
    seconds: float, steps: int, only: str | None, seed: int, output: Path, overwrite: bool
) -> None:
    """Train networks on the rigid body for the same time and compare how accurate they are.

    All see the same trajectories (the recipe rigid-body, step 0.2), on one thread in double
    precision. The change of the invariants is the largest, of either, on 8 random orbits.
    strupnet is in the extra `bench`: pip install vpintegrator[bench].
    """
    names = list(ENTRIES) if only is None else [name.strip() for name in only.split(",")]
    for name in names:
        if name not in ENTRIES:
            raise InputError(f"--only: '{name}' is none of {', '.join(ENTRIES)}")
    check_output(output, overwrite)
    out = console()
    header = (
        f"Rigid body, step 0.2, {seconds:g} s of training each, one thread; "
        f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, "
        f"torch {torch.__version__.partition('+')[0]}"
    )
    out.print(header, soft_wrap=True)
    rows = []
    data = output.with_name(f".{output.name}.h5")
    try:
        dataset = vp.generate("rigid-body", data, overwrite=True)
        with progress_bar() as bar:
            task = bar.add_task("", total=len(names))
            for name in names:
                bar.update(task, description=ENTRIES[name].title)
                try:
                    rows.append(measure(name, dataset, seconds, steps, seed))
                except ModuleNotFoundError as error:
                    if error.name != "strupnet":
                        raise
                    out.print(f"{name} is left out: strupnet is not installed")
                bar.advance(task)
    finally:
        data.unlink(missing_ok=True)
    columns = ["network", "parameters", "epochs", "error", "ratio", "RMSE to t = 120"]
    columns += [f"change, {n:,} steps" for n in DRIFT_STEPS if n <= steps]
    best = min((row["error"] for row in rows), default=math.nan)
    table = Table(Column(columns[0], no_wrap=True), *columns[1:], box=None)
    lines = [header, "", "| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    for row in rows:
        table.add_row(*cells(row, best))
        lines.append("| " + " | ".join(cells(row, best)) + " |")
    out.print(table)
    lines += ["", *(f"- `{row['network']}`: {ENTRIES[row['network']].title}" for row in rows)]
    with replacing(output, overwrite) as temporary:
        temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")
    out.print(f"written to {output}")


if __name__ == "__main__":
    main()
