#!/usr/bin/env python
"""Sine or cosine? Compares the volume-preserving attention mechanisms on one small task."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch

from vpintegrator import nn
from vpintegrator.cli.common import SETTINGS, console, overwrite_option, plain_errors, progress_bar
from vpintegrator.data import windows
from vpintegrator.data.pairs import HeldPairs
from vpintegrator.models import Integrator
from vpintegrator.rollout import rollout, root_mean_square_error, window_log_determinant
from vpintegrator.runtime.threads import torch_threads
from vpintegrator.storage.files import check_output, replacing
from vpintegrator.training.optimizers.levenberg_marquardt import LevenbergMarquardt

STEP, WINDOW = 0.1, 3
TRAINING_STEPS, VALIDATION_STEPS = 1000, 400
CURVES = ("sin t", "cos t")
INSIDE = (2, 10)  # dimensions after up-scaling
STYLES: dict[str, dict[str, Any]] = {  # the last are drawn on top, and thinner
    "none": {"color": "#cc79a7", "lw": 1.5, "ms": 4},
    "skew": {"color": "#0072b2", "lw": 2, "ms": 6},
    "coupled": {"color": "#009e73", "lw": 2, "ms": 5},
    "arbitrary": {"color": "#d55e00", "lw": 1, "ms": 2},
}


def attention(mechanism: str, inside: int) -> list[torch.nn.Module]:
    """What stands between the scalings: one layer, or nothing."""
    if mechanism == "none":
        return []
    if mechanism == "coupled":
        return [nn.CoupledAttention(inside, WINDOW, split="halves")]
    return [nn.VolumePreservingAttention(inside, mechanism)]


class CurveNetwork(Integrator):
    """x -> tanh(a x + b) at each time, attention over the window, then a number at each time."""

    def __init__(self, mechanism: str, inside: int) -> None:
        up = torch.nn.Sequential(torch.nn.Linear(1, inside, dtype=torch.float64), torch.nn.Tanh())
        middle = Integrator(
            nn.Composition(*attention(mechanism, inside)),
            dim=inside,
            window=WINDOW,
            prediction_window=1,
            arguments={},
        )
        down = torch.nn.Linear(inside, 1, dtype=torch.float64)
        super().__init__(
            nn.Composition(up, middle, down),
            dim=1,
            window=WINDOW,
            prediction_window=1,
            arguments={"mechanism": mechanism, "inside": inside},
        )
        self.up, self.middle = up, middle


@dataclass
class Result:
    """One trained network and what was measured on it."""

    mechanism: str
    inside: int
    model: CurveNetwork
    training_error: list[float]
    prediction: np.ndarray  # (curve, time), on the validation stretch
    rollout_error: float
    log_determinant: float


def curves(first: int, count: int) -> np.ndarray:
    """Sine and cosine at steps first, first + 1, ...: (curve, time, 1)."""
    t = STEP * np.arange(first, first + count)
    return np.stack([np.sin(t), np.cos(t)])[..., None]


def train(mechanism: str, inside: int, seed: int, iterations: int) -> Result:
    """Fit the next value to the window by Levenberg-Marquardt, then let the network go on alone."""
    torch.manual_seed(seed)
    model = CurveNetwork(mechanism, inside)
    inputs, targets = map(torch.from_numpy, windows(curves(0, TRAINING_STEPS), WINDOW, 1))
    generator = torch.Generator().manual_seed(seed)
    pairs = HeldPairs.of_tensors(inputs, targets)
    optimizer = LevenbergMarquardt(model, pairs, batch=len(inputs), generator=generator)
    spread = float(targets.std())
    errors = [optimizer.epoch(i / iterations) / spread for i in range(iterations)]

    truth = curves(TRAINING_STEPS, VALIDATION_STEPS + 1)
    prediction = rollout(model, truth[:, :WINDOW], VALIDATION_STEPS)
    error = root_mean_square_error(prediction[:, WINDOW:], truth[:, WINDOW:])
    with torch.no_grad():
        inner = model.up(inputs[::10])
    volume = np.abs(window_log_determinant(model.middle, inner)).max()
    return Result(
        mechanism, inside, model, errors, prediction[..., 0], math.hypot(*error) / 2**0.5, volume
    )


def typical(results: list[Result], mechanism: str, inside: int) -> tuple[list[Result], Result]:
    """The networks of all seeds from the least to the largest rollout error, and the middle one."""
    same = [r for r in results if (r.mechanism, r.inside) == (mechanism, inside)]
    same.sort(key=lambda r: r.rollout_error)
    return same, same[(len(same) - 1) // 2]


def middle_and_worst(values: list[float]) -> list[str]:
    return [f"{np.median(values):.1e}", f"{max(values):.0e}"]


def report(results: list[Result]) -> None:
    from rich.table import Table

    out = console()
    columns = ("inside", "attention", "weights", "training", "worst", "rollout", "worst")
    table = Table(*columns, "volume", "log det", box=None)
    for inside, mechanism in product(INSIDE, STYLES):
        same, middle = typical(results, mechanism, inside)
        table.add_row(
            str(inside),
            mechanism,
            str(sum(p.numel() for p in middle.model.parameters())),
            *middle_and_worst([r.training_error[-1] for r in same]),
            *middle_and_worst([r.rollout_error for r in same]),
            "kept" if middle.model.middle.volume_preserving else "changed",
            f"{max(r.log_determinant for r in same):.0e}",
        )
    out.print(table)
    for line in (
        f"Median and worst of {len(same)} seeds. Training: relative error one step ahead; a "
        f"function of the present value alone cannot go below sin {STEP} = {math.sin(STEP):.2e}. "
        f"Rollout: root mean square error over both curves and {VALIDATION_STEPS} steps beyond "
        "the training data; predicting 0 throughout has 0.71.",
        "Volume is that of the attention between the scalings, of windows in R^(3 x inside); log "
        "det is the largest |log|det|| on training windows. The scalings themselves preserve "
        "nothing, so it does not follow that the rollout of the number is stable.",
    ):
        out.print(line, soft_wrap=True)


def draw_predictions(results: list[Result]) -> Any:
    """Rollouts of the seed in the middle, and what each network makes of the present value."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 6), layout="constrained")
    axes = figure.subplots(len(INSIDE), 4, width_ratios=(4, 4, 4, 3))
    truth = curves(TRAINING_STEPS, VALIDATION_STEPS + 1)[..., 0]
    t = STEP * (TRAINING_STEPS + np.arange(VALIDATION_STEPS + 1))
    inputs, targets = windows(curves(0, 64), WINDOW, 1)
    now, step = inputs[:, -1, 0], targets[:, -1, 0] - inputs[:, -1, 0]
    for row, inside in zip(axes, INSIDE, strict=True):
        for axis, x, name in zip(row, truth, CURVES, strict=False):
            axis.plot(t, x, color="black", lw=6, alpha=0.2, label="truth")
            axis.set(ylim=(-1.6, 1.6), ylabel=name, title=f"{inside} dimensions inside")
        row[2].set(ylim=(1e-6, 10), yscale="log", ylabel="error of both", title="median seeds")
        row[3].plot(now, step, ".", color="black", ms=12, alpha=0.2, mew=0)
        row[3].set(ylim=(-0.16, 0.16), ylabel="next less present value", title="one step")
        for mechanism, style in STYLES.items():
            _, middle = typical(results, mechanism, inside)
            for axis, x in zip(row, middle.prediction, strict=False):
                axis.plot(t, x, label=mechanism, **style)
            error = np.sqrt(np.mean((middle.prediction - truth) ** 2, axis=0))
            row[2].plot(t[WINDOW:], error[WINDOW:], **style)
            with torch.no_grad():
                following = middle.model.predict(torch.from_numpy(inputs))[:, -1, 0].numpy()
            row[3].plot(now, following - now, ".", mew=0, **style)
    for axis, label in zip(axes[-1], ("t", "t", "t", "present value"), strict=True):
        axis.set_xlabel(label)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    return figure


def draw_training(results: list[Result]) -> Any:
    """Training errors of all seeds."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    for axis, inside in zip(figure.subplots(1, len(INSIDE), sharey=True), INSIDE, strict=True):
        for mechanism, style in STYLES.items():
            for index, result in enumerate(typical(results, mechanism, inside)[0]):
                label = None if index else mechanism
                iteration = np.arange(1, len(result.training_error) + 1)
                axis.loglog(
                    iteration, result.training_error, color=style["color"], lw=1, label=label
                )
        axis.axhline(math.sin(STEP), color="black", ls=":", lw=1, label=f"sin {STEP}")
        axis.set(xlabel="iteration of Levenberg-Marquardt", title=f"{inside} dimensions inside")
        axis.label_outer()
    figure.axes[0].set_ylabel("relative training error, one step ahead")
    figure.axes[0].legend(fontsize=9)
    return figure


@click.command(context_settings=SETTINGS | {"show_default": True})
@click.option("--seeds", default=5, type=click.IntRange(1), help="Networks trained of each kind.")
@click.option("--iterations", default=150, type=click.IntRange(1), help="Of Levenberg-Marquardt.")
@click.option(
    *("-o", "--output"),
    default="compare-attention",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for predictions and training_errors, each as .png and .pdf.",
)
@overwrite_option
@plain_errors
def main(seeds: int, iterations: int, output: Path, overwrite: bool) -> None:
    """Compare volume-preserving attention mechanisms on a sine and a cosine.

    One network learns to continue both curves, sampled in steps of 0.1, from windows of three
    values. At the same value a sine may rise while a cosine falls, so a feed-forward network, which
    sees the present value alone, cannot tell what comes next; attention over the window can. The
    mechanisms are none; skew weighting, which preserves volume; arbitrary weighting, published as
    volume-preserving, which it is not; and arbitrary weighting inside a coupling, which is.
    After the tutorial on volume-preserving attention of GeometricMachineLearning.jl. Takes a minute
    or two.
    """
    output.mkdir(parents=True, exist_ok=True)
    names = ("predictions", "training_errors")
    files = [output / f"{name}.{kind}" for name, kind in product(names, ("png", "pdf"))]
    for path in files:
        check_output(path, overwrite)
    jobs = list(product(STYLES, INSIDE, range(seeds)))
    results = []
    with progress_bar() as progress, torch_threads():
        task = progress.add_task("training", total=len(jobs))
        for mechanism, inside, seed in jobs:
            results.append(train(mechanism, inside, seed, iterations))
            progress.advance(task)
    report(results)
    figures = dict(zip(names, (draw_predictions(results), draw_training(results)), strict=True))
    for path in files:
        with replacing(path, overwrite) as temporary:
            figures[path.stem].savefig(temporary, format=path.suffix[1:], dpi=200)
    console().print(f"figures: {', '.join(map(str, files))}", soft_wrap=True)


if __name__ == "__main__":
    main()
