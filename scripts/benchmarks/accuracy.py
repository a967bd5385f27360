"""Accuracy at equal seconds of training: our models, the published architecture, and strupnet."""

from __future__ import annotations

import math
import re
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import click
from harness import machine

# isort: split

import numpy as np
import torch
from rich.console import Console
from rich.table import Column, Table

import vpintegrator as vp
from vpintegrator.cli.command import PlainCommand
from vpintegrator.data import Dataset
from vpintegrator.errors import InputError
from vpintegrator.models import Model, VolumePreservingFeedForward, VolumePreservingTransformer
from vpintegrator.rollout import invariant_errors, root_mean_square_error, solve_reference
from vpintegrator.runtime.progress import progress_bar
from vpintegrator.storage.files import check_output, replacing
from vpintegrator.training import History

TIME = 120.0
ORBITS = [[0, math.sin(0.9), -math.cos(0.9)], [0, math.sin(1.1), math.cos(1.1)]]
RANDOM_ORBITS = 8
STEPS = (1_000, 10_000, 50_000)
NOTES = [
    "error: relative, of the new states one window ahead (1 step; 3 for transformers), test group",
    "RMSE: orbits from (0, sin 0.9, -cos 0.9) / (0, sin 1.1, cos 1.1)",
    f"at N steps: largest relative change of energy / squared momentum, {RANDOM_ORBITS} orbits",
    "∞: diverged; cores: processor time by wall time of training",
    "epochs: iterations of Levenberg-Marquardt",
]


class VolNet(Model):
    """strupnet's VolNet as a one-step map, so that the same loop trains it.

    Without a step it takes states (z, h) of steps of their own.

    Its layers are ridge functions, documented with ``method`` "R", made of tanh, or "P",
    polynomials. But VolNet 0.0.4 takes "R" whatever it is given, for it looks for the key with
    ``hasattr``; so for "P" its steps are put in by hand.
    """

    name = "volnet"

    def __init__(self, step: float | None, method: str, **options: int) -> None:
        before = torch.get_default_dtype()
        try:
            # imported, strupnet makes double precision the default for everybody, and relies on it
            strupnet = import_module("strupnet")
            torch.set_default_dtype(torch.float64)
            net = strupnet.VolNet(dim=3, **options)
            if method == "P":
                steps = [strupnet.vnn.Symp2DStep(3, method="P", **options) for _ in net.layer_list]
                net.layer_list = torch.nn.ModuleList(steps)
        finally:
            torch.set_default_dtype(before)
        psi, dim = (_OfEveryStep(net), 4) if step is None else (_AtStep(net, step), 3)
        super().__init__(psi, dim)


class _AtStep(torch.nn.Module):
    def __init__(self, net: torch.nn.Module, step: float) -> None:
        super().__init__()
        self.net, self.step = net, step

    def forward(self, window: torch.Tensor) -> torch.Tensor:
        return self.net(window, self.step)


class _OfEveryStep(torch.nn.Module):
    def __init__(self, net: torch.nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, window: torch.Tensor) -> torch.Tensor:
        z, h = window.reshape(-1, 4).split([3, 1], 1)
        return torch.cat([self.net(z, h), h], 1).reshape(window.shape)


def couplings(data: Dataset) -> Model:
    return VolumePreservingFeedForward(dim=3, reversing_symmetries=data.system.reversing_symmetries)


def transformer(data: Dataset) -> Model:
    symmetries = data.system.reversing_symmetries
    return VolumePreservingTransformer(dim=3, prediction_window=3, reversing_symmetries=symmetries)


def published(data: Dataset) -> Model:
    """Window 3, depth 3, two blocks, 180 parameters: arXiv 2312.11166 and its Julia package."""
    return VolumePreservingTransformer.published(3, weighting="arbitrary", dtype="float64")


class Entry(NamedTuple):
    """A line of the table: a network and how it is trained."""

    title: str
    make: Callable[[Dataset], Model]
    options: dict[str, Any]  # of training


# Each VolNet is the best of some twenty that were tried for 20 to 110 s: 6 to 24 layers (R), 4 to
# 24 (P), width 8 or 16, degree 4 to 8, rates 0.01 to 1, batches of 256 to 4096, normalised or not.
# The rate decays and batches are of 1024, as for our networks under Adam; the constant rate of 0.01
# on all windows at once, which its documentation uses, leads less far.
ENTRIES = {
    "vpff": Entry("reversible symmetric couplings, one step", couplings, {}),
    "vpt": Entry("reversible VPT, window 3", transformer, {}),
    "vpff-adam": Entry("the same couplings under Adam", couplings, {"optimizer": "adam"}),
    "vpt-adam": Entry("the same VPT under Adam", transformer, {"optimizer": "adam"}),
    "published": Entry("VPT of arXiv 2312.11166, trained by us", published, {}),
    "volnet": Entry(
        "strupnet VolNet as released: R, 12 layers of width 8, learning rate 0.3",
        lambda data: VolNet(data.step, "R", layers=12, width=8),
        {"optimizer": "adam", "learning_rate": 0.3},
    ),
    "volnet-p": Entry(
        "strupnet VolNet, P put in by hand: 8 layers, degree 6, learning rate 0.03",
        lambda data: VolNet(data.step, "P", layers=8, max_degree=6),
        {"optimizer": "adam", "learning_rate": 0.03},
    ),
}
OURS = ("vpff", "vpt")


class Row(NamedTuple):
    """What was measured of an entry."""

    name: str
    history: History
    cores: float  # that training had: below 1 on a busy machine
    rmse: list[float]  # of each of ORBITS
    changes: list[list[float]]  # of each invariant, for each number of steps

    def cells(self, best: float) -> list[str]:
        h, ratio = self.history, self.history.test_error / best
        cells = [self.name, str(h.parameters), _number(h.test_error)]
        cells += [f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.1f}"]
        cells += [" / ".join(_number(x) for x in group) for group in [self.rmse, *self.changes]]
        return [*cells, f"{h.used:.3g} s", f"{self.cores:.2f}", f"{h.epochs:,}"]


def _number(value: float) -> str:
    return re.sub(r"e([+-])0", r"e\1", f"{value:.1e}") if math.isfinite(value) else "∞"


def measure(name: str, data: Dataset, seconds: float, steps: int, seed: int, bar: Any) -> Row:
    """Train an entry and let it run."""
    entry, task = ENTRIES[name], bar.add_task(name, total=seconds)

    def show(h: History) -> None:
        error = f"{name}: error {h.best_validation_error:.1e}"
        bar.update(task, completed=min(h.used, seconds), description=error)

    torch.manual_seed(seed)
    model = entry.make(data)
    cpu, wall = time.process_time(), time.perf_counter()
    history = vp.train(model, data, seconds=seconds, seed=seed, progress=show, **entry.options)
    cores = (time.process_time() - cpu) / (time.perf_counter() - wall)
    if history.stopped_by == "interrupt":
        raise KeyboardInterrupt  # less training than the others had would make no fair line

    random = data.system.sample_initial(RANDOM_ORBITS, np.random.default_rng(seed))
    times = data.step * np.arange(round(TIME / data.step) + 1)
    reference = solve_reference(data.system, np.concatenate([ORBITS, random]), times).states
    far, windows = max(steps, len(times) - 1), reference[:, : model.window]
    bar.reset(task, total=far, description=f"{name}: running")
    states = vp.rollout(model, windows, far, lambda _, *n: bar.update(task, completed=n[0]))
    bar.remove_task(task)
    given = len(ORBITS)
    rmse = root_mean_square_error(states[:given, : len(times)], reference[:given]).tolist()
    partial = [states[given:, : n + 1] for n in STEPS if n <= steps]
    errors = [invariant_errors(data.system, part).values() for part in partial]
    changes = [[float(e.largest.max()) for e in several] for several in errors]
    return Row(name, history, cores, rmse, changes)


@click.command(cls=PlainCommand)
@click.option("--seconds", type=float, default=150.0, show_default=True, help="For each network.")
@click.option("--steps", default=STEPS[-1], show_default=True, help="Of the long rollout.")
@click.option("--only", metavar="NAME,...", help=f"Some of: {', '.join(ENTRIES)}.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("-o", "--output", default="accuracy.md", show_default=True, help="Markdown file.")
@click.option("--overwrite", is_flag=True, help="Replace output that exists.")
def main(
    seconds: float, steps: int, only: str | None, seed: int, output: str, overwrite: bool
) -> None:
    """Train networks on the rigid body for the same time and compare how accurate they are.

    All see the same trajectories (the recipe rigid-body, step 0.2), on one thread in double
    precision, one after the other: half an hour in all. The machine should do nothing else; the
    column "cores" tells what training had of it. strupnet is in the extra `bench`:
    pip install vpintegrator[bench].
    """
    names = list(dict.fromkeys(name.strip() for name in (only or ",".join(ENTRIES)).split(",")))
    for name in names:
        if name not in ENTRIES:
            raise InputError(f"--only: '{name}' is none of {', '.join(ENTRIES)}")
    check_output(output, overwrite)
    out, computer = Console(highlight=False, markup=False), machine()
    title = f"Rigid body, {seconds:g} s of training each"
    out.print(f"{title}, seed {seed}; {computer}", soft_wrap=True)
    rows, left_out = list[Row](), dict[str, str]()
    if find_spec("strupnet") is None:
        left_out = {name: "strupnet is not installed" for name in names if "volnet" in name}
    with tempfile.TemporaryDirectory() as folder, progress_bar() as bar:
        data = vp.generate("rigid-body", Path(folder) / "rigid-body.h5")
        waiting = [name for name in names if name not in left_out]
        try:
            while waiting:
                rows.append(measure(waiting[0], data, seconds, steps, seed, bar))
                error = rows[-1].history.test_error
                bar.console.print(f"{waiting.pop(0)}: relative error {error:.1e}")
        except KeyboardInterrupt:
            left_out |= dict.fromkeys(waiting, "interrupted")
    best = min((r.history.test_error for r in rows if r.name in OURS), default=math.nan)
    cells = [row.cells(best) for row in rows]
    header = ["network", "parameters", "error", "× our best", f"RMSE to t = {TIME:g}"]
    header += [f"at {n:,} steps" for n in STEPS if n <= steps]
    header += ["time", "cores", "epochs"]
    notes = [f"{r.name}: {ENTRIES[r.name].title} ({r.history.optimizer})" for r in rows]
    notes += [f"{name} is left out: {reason}" for name, reason in left_out.items()]
    rule = ["---", *["---:"] * (len(header) - 1)]
    lines = [f"# {title}, seed {seed}", "", computer, ""]
    lines += ["| " + " | ".join(line) + " |" for line in [header, rule, *cells]]
    lines += ["", *(f"- {note}" for note in notes + NOTES), ""]
    with replacing(output, overwrite) as temporary:
        temporary.write_text("\n".join(lines), encoding="utf-8")
    first = Column(header[0], no_wrap=True)
    others = [Column(name, justify="right", overflow="fold") for name in header[1:]]
    table = Table(first, *others, box=None, collapse_padding=True, pad_edge=False)
    for row in cells:
        table.add_row(*(cell.replace(" / ", "\n") for cell in row))
    out.print(table)
    out.print(*notes, *NOTES, f"written to {output}", sep="\n", soft_wrap=True)


if __name__ == "__main__":
    main()
