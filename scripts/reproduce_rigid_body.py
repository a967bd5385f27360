#!/usr/bin/env python
"""The rigid body of arXiv 2312.11166: its networks, its data, its training; beside our default.

    python scripts/reproduce_rigid_body.py -o rigid-body-study
    python scripts/reproduce_rigid_body.py --epochs 500000    # as published, days on a CPU

The volume-preserving feed-forward network, the volume-preserving transformer (VPT) and the standard
transformer learn orbits of the implicit midpoint rule with step 0.2, by Adam in single precision.
Beside them are the map that ``vp.fit`` chooses for the same data, the VPT with our layers and
optimizer, and RK4. Two orbits of the paper run to t = 120, and errors are those from the implicit
midpoint rule. The folder receives the data, the models, the rollout, figures and tables of it, and
the loss curves.

Values marked as published are those of the weights that come with the tutorial of
GeometricMachineLearning.jl. The paper trains on all of the 1,238 orbits; here 238 are kept for
validation and test. The first 20 units of time of orbit 2 are among the data.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from matplotlib import pyplot

import vpintegrator as vp
from vpintegrator.models import (
    Model,
    StandardTransformer,
    VolumePreservingFeedForward,
    VolumePreservingTransformer,
)
from vpintegrator.training import History

METHOD, STEP = "implicit-midpoint", 0.2
NETWORKS: dict[str, Callable[[], Model]] = {
    "feed-forward": partial(VolumePreservingFeedForward.published, 3),
    "VPT": partial(VolumePreservingTransformer.published, 3),
    "standard transformer": partial(StandardTransformer.published, 3, embedding=False),
}
# relative error, and RMSE of both orbits
LITERATURE = {"feed-forward": (7.4e-4, 0.84, 0.79), "VPT": (1.7e-3, 0.68, 0.21)}
ORBITS = [[0.0, math.sin(a), b * math.cos(a)] for a, b in ((0.9, -1), (1.1, 1))]


@click.command()
@click.option(
    "--epochs", default=2000, show_default=True, help="Of the published training; 500,000 there."
)
@click.option("--seeds", default=1, show_default=True, help="Trainings of each network.")
@click.option("--seconds", default=150.0, show_default=True, help="Of each of our trainings.")
@click.option("--time", default=120.0, show_default=True, help="How long orbits run.")
@click.option("--count", default=1238, show_default=True, help="Orbits of the data.")
@click.option("-o", "--output", default="rigid-body-study", type=click.Path(path_type=Path))
@click.option("--overwrite", is_flag=True, help="Replace what is there.")
def main(
    epochs: int,
    seeds: int,
    seconds: float,
    time: float,
    count: int,
    output: Path,
    overwrite: bool,
) -> None:
    """Repeat the study of the rigid body by Brantner, de Romemont, Kraus and Li."""
    output.mkdir(exist_ok=overwrite, parents=True)
    path = output / "dataset.h5"
    data = vp.generate("rigid-body-circles", path, method=METHOD, count=count, overwrite=overwrite)
    models: dict[str, list[Model]] = {}
    curves: dict[str, History] = {}
    for name, make in NETWORKS.items():
        models[name] = []
        for seed in range(seeds):
            torch.manual_seed(seed)
            model = make()
            file = output / f"{name.replace(' ', '-').lower()}-{seed}.safetensors"
            history = vp.train(model, data, recipe="published", epochs=epochs, seed=seed)
            vp.save(model, file, overwrite)
            _check(history.stopped_by)
            models[name].append(model)
            curves.setdefault(name, history)
    torch.manual_seed(0)
    symmetries = data.system.reversing_symmetries
    ours = VolumePreservingTransformer(dim=3, window=3, reversing_symmetries=symmetries)
    _check(vp.train(ours, data, seconds=seconds).stopped_by)
    fit = vp.fit(data, seconds=seconds)
    _check(fit.stopped_by)
    models |= {"our VPT": [ours], f"vp.fit ({fit.model.name})": [fit.model]}
    vp.save(ours, output / "our-vpt.safetensors", overwrite)
    vp.save(fit.model, output / "our-default.safetensors", overwrite)
    steps = round(time / STEP)
    reference = vp.integrate(data.system, METHOD, np.array(ORBITS), STEP, steps)
    report = vp.compare(models, "rk4", reference=reference)
    report.save(output / "rollout.h5", overwrite=overwrite)
    vp.draw(report, output / "figures", overwrite=overwrite)
    _draw_losses(curves, output / "figures" / "training-loss.png")
    click.echo(f"{'':32s} {'error':>9s} {'RMSE of orbits 1 and 2':>24s}")
    for name, run in report.runs.items():
        errors = [*run.root_mean_square_error]
        if name in models:
            tests = [json.loads(m.metadata["training"])["test_error"] for m in models[name]]
            errors = [np.median(tests), *errors]
        click.echo(_row(run.title, errors))
        if name in LITERATURE:
            click.echo(_row(f"{name}, published weights", LITERATURE[name]))


def _check(ending: str) -> None:
    if ending == "interrupt":
        raise SystemExit(130)


def _draw_losses(curves: dict[str, History], path: Path) -> None:
    """Draw the training error of each published network over the epochs."""
    figure, axes = pyplot.subplots(figsize=(3.4, 2.6), layout="constrained")
    for (name, history), line in zip(curves.items(), ("-", "--", ":"), strict=True):
        axes.semilogy(history.epoch, history.training_error, line, label=name)
    axes.set(xlabel="epoch", ylabel="relative error, training")
    axes.legend()
    figure.savefig(path, dpi=300)
    pyplot.close(figure)


def _row(name: str, errors: Any) -> str:
    cells = [f"{error:.1e}" for error in errors]
    cells = ["-"] * (3 - len(cells)) + cells
    return f"{name:32s} {cells[0]:>9s} {cells[1]:>12s} {cells[2]:>12s}"


if __name__ == "__main__":
    main()
