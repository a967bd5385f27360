#!/usr/bin/env python
"""The rigid body of arXiv 2312.11166: its networks, ours and classical methods, to t = 120.

    python scripts/reproduce_rigid_body.py -o rigid-body-study
    python scripts/reproduce_rigid_body.py --published-training --seconds 600

The volume-preserving feed-forward network, the volume-preserving transformer (VPT) and the standard
transformer, of the published sizes, learn the published data; beside them are reversible networks
and classical methods with the same step of 0.2. Two published orbits run to t = 120. The folder
receives the data, the networks, the rollout, and figures and tables of it.

Published values are those of the networks that come with the tutorial, which their authors trained
for 500,000 epochs of Adam in single precision. The first 20 units of time of orbit 2 are among the
data. Published data are orbits of the implicit midpoint rule, ours accurate solutions.
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

import vpintegrator as vp
from vpintegrator.models import (
    Integrator,
    StandardTransformer,
    VolumePreservingFeedForward,
    VolumePreservingTransformer,
)

# Sizes are those of the tutorial "volume_preserving_transformer_rigid_body" of
# GeometricMachineLearning.jl, whose names for them are in brackets: three transformer units (L),
# each with two triangular blocks (n_blocks) of one linear pair (n_linear), windows of three states
# (seq_length), one head (n_heads), tanh, no add connection; the feed-forward network has as many
# triangular blocks as the transformer. The weighting of the tutorial is arbitrary, that of the
# paper skew.
TRIANGULAR: dict[str, Any] = {"feed_forward": "triangular", "linear": 1}
WINDOW: dict[str, Any] = {"window": 3, "prediction_window": 3}
UNITS: dict[str, Any] = {"dim": 3, "depth": 3, "blocks": 2}
WEIGHTING: dict[str, Any] = {"weighting": "arbitrary", "attention_scale": 3**-0.5}
PLAIN: dict[str, Any] = {"width": 3, "heads": 1, "positions": False, "residual": False}
REVERSIBLE: dict[str, Any] = {
    "dim": 3,
    "reversing_symmetries": vp.load_system("rigid-body").reversing_symmetries,
}
NETWORKS: dict[str, Callable[[], Integrator]] = {
    "feed-forward": partial(VolumePreservingFeedForward, dim=3, depth=1, blocks=6, **TRIANGULAR),
    "VPT": partial(VolumePreservingTransformer, **UNITS, **WEIGHTING, **WINDOW, **TRIANGULAR),
    "standard transformer": partial(StandardTransformer, **UNITS, **PLAIN, **WINDOW),
    "reversible feed-forward": partial(VolumePreservingFeedForward, **REVERSIBLE),
    "reversible VPT": partial(VolumePreservingTransformer, **REVERSIBLE, **WINDOW),
}
PUBLISHED = ("feed-forward", "VPT", "standard transformer")
# relative error, and RMSE of both orbits
LITERATURE = {"feed-forward": (7.4e-4, 0.84, 0.79), "VPT": (1.7e-3, 0.68, 0.21)}
METHODS = (
    *("implicit-midpoint", "rk4", "gauss-legendre-4"),
    *("coordinate-splitting", "strang-splitting"),
)
ORBITS = [[0.0, math.sin(a), b * math.cos(a)] for a, b in ((0.9, -1), (1.1, 1))]
# Adam as published: first rate and loss, on states as they are. The published rate falls
# exponentially over thousands of epochs; here it falls along half a cosine over the same seconds
# that every network gets.
PUBLISHED_TRAINING: dict[str, Any] = {
    "optimizer": "adam",
    "learning_rate": 1e-2,
    "loss": "relative",
    "normalise": False,
    "batch": 16384,
}


@click.command()
@click.option("--seconds", default=120.0, show_default=True, help="Training of each network.")
@click.option(
    "--published-training",
    is_flag=True,
    help="Train the published networks with Adam as published, not with our optimizer.",
)
@click.option("--time", default=120.0, show_default=True, help="How long orbits run.")
@click.option("--seed", default=0, show_default=True)
@click.option("-o", "--output", default="rigid-body-study", type=click.Path(path_type=Path))
@click.option("--overwrite", is_flag=True, help="Replace what is there.")
def main(
    seconds: float, published_training: bool, time: float, seed: int, output: Path, overwrite: bool
) -> None:
    """Repeat the study of the rigid body by Brantner, de Romemont, Kraus and Li."""
    output.mkdir(exist_ok=overwrite, parents=True)
    data = vp.generate("rigid-body-circles", output / "dataset.h5", overwrite=overwrite)
    models = {}
    for name, make in NETWORKS.items():
        torch.manual_seed(seed)
        models[name] = make()
        extra = PUBLISHED_TRAINING if published_training and name in PUBLISHED else {}
        history = vp.train(models[name], data, seconds=seconds, seed=seed, **extra)
        if history.stopped_by == "interrupt":
            raise SystemExit(130)
        vp.save(models[name], output / f"{name.replace(' ', '-').lower()}.safetensors", overwrite)
    report = vp.compare(models, METHODS, initial=np.array(ORBITS), time=time)
    report.save(output / "rollout.h5", overwrite=overwrite)
    vp.draw(report, output / "figures", overwrite=overwrite)
    click.echo(f"{'':28s} {'error':>9s} {'RMSE of orbits 1 and 2':>24s}")
    for name, run in report.runs.items():
        errors = [*run.root_mean_square_error]
        if name in models:
            errors = [json.loads(models[name].metadata["training"])["test_error"], *errors]
        click.echo(_row(name, errors))
        if name in LITERATURE:
            click.echo(_row(f"{name}, published", LITERATURE[name]))


def _row(name: str, errors: Any) -> str:
    cells = [f"{error:.1e}" for error in errors]
    cells = ["-"] * (3 - len(cells)) + cells
    return f"{name:28s} {cells[0]:>9s} {cells[1]:>12s} {cells[2]:>12s}"


if __name__ == "__main__":
    main()
