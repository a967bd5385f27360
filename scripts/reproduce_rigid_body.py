"""The rigid body of arXiv 2312.11166: its networks, its data, its training; beside our default.

    python scripts/reproduce_rigid_body.py -o rigid-body-study
    python scripts/reproduce_rigid_body.py --train --epochs 500000    # as published: hours for each

The volume-preserving feed-forward network, the volume-preserving transformer (VPT) and the standard
transformer learn orbits of the implicit midpoint rule with step 0.2, by Adam in single precision.
Their weights after 50,000 epochs are in ``scripts/published``. With ``--train`` they are trained
anew, from checkpoints in the folder where a run was interrupted. Beside them are the map that
``vp.fit`` chooses for the same data, the VPT with our layers and optimizer, and RK4. The orbits of
the paper run to t = 100, those of the Julia tutorial to t = 120, and errors are those from the
implicit midpoint rule. The folder receives the data, the models, both rollouts with figures and
tables, the loss curves, and a table of the training times.

Values marked as published are those of the weights that come with the tutorial of
GeometricMachineLearning.jl. The paper trains on all of the 1,238 orbits; here 238 are kept for
validation and test. The first 20 units of time of its orbits are among the data, as those of the
second orbit of the tutorial are, which is the same.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
import torch
from matplotlib import pyplot
from matplotlib.ticker import MaxNLocator

import vpintegrator as vp
from vpintegrator.cli.command import PlainCommand
from vpintegrator.errors import InputError
from vpintegrator.models import (
    Model,
    StandardTransformer,
    VolumePreservingFeedForward,
    VolumePreservingTransformer,
)
from vpintegrator.plotting.scene import Scene
from vpintegrator.training import History

METHOD, STEP = "implicit-midpoint", 0.2
WEIGHTS = Path(__file__).parent / "published"
NETWORKS: dict[str, Callable[[], Model]] = {
    "feed-forward": partial(VolumePreservingFeedForward.published, 3),
    "VPT": partial(VolumePreservingTransformer.published, 3),
    "standard transformer": partial(StandardTransformer.published, 3),
}
# relative error, and RMSE of both orbits of the tutorial
LITERATURE = {"feed-forward": (7.4e-4, 0.84, 0.79), "VPT": (1.7e-3, 0.68, 0.21)}
SECOND = [0.0, math.sin(1.1), math.cos(1.1)]


class Orbits(NamedTuple):
    """Initial states (orbit, 3) of figures in the literature, and the time that they run."""

    initial: list[list[float]]
    time: float


ORBITS = {
    "paper": Orbits([[math.sin(1.1), 0.0, math.cos(1.1)], SECOND], 100.0),
    "tutorial": Orbits([[0.0, math.sin(0.9), -math.cos(0.9)], SECOND], 120.0),
}


@click.command(cls=PlainCommand)
@click.option("--train", is_flag=True, help="Train the published networks anew.")
@click.option(
    "--epochs",
    type=click.IntRange(min=1),
    help="Of this training; 500,000 there.  [default: 2000]",
)
@click.option(
    "--seeds", type=click.IntRange(min=1), help="Trainings of each network.  [default: 1]"
)
@click.option(
    "--initial",
    type=click.Choice(["small", "glorot"]),
    help="Initial weights: near the identity, or of size one as in the Julia package.  [default: "
    "small]",
)
@click.option("--seconds", default=150.0, show_default=True, help="Of each of our trainings.")
@click.option("--time", type=float, help="How long orbits run.  [as in the literature]")
@click.option("--count", default=1238, show_default=True, help="Orbits of the data.")
@click.option("-o", "--output", default="rigid-body-study", type=click.Path(path_type=Path))
def main(
    train: bool,
    epochs: int | None,
    seeds: int | None,
    initial: str | None,
    seconds: float,
    time: float | None,
    count: int,
    output: Path,
) -> None:
    """Repeat the study of the rigid body by Brantner, de Romemont, Kraus and Li."""
    given = {"--epochs": epochs, "--seeds": seeds, "--initial": initial}
    if not train and (unused := [name for name, value in given.items() if value is not None]):
        raise InputError(f"{unused[0]} is of a training; give --train, or leave it out")
    output.mkdir(exist_ok=True, parents=True)
    path = output / "dataset.h5"
    if not path.exists():
        vp.generate("rigid-body-circles", path, method=METHOD, count=count)
    data = vp.open_dataset(path)
    models: dict[str, list[Model]]
    if train:
        models = _train(data, epochs or 2000, seeds or 1, initial or "small", output)
    else:
        models = {name: [vp.load(WEIGHTS / file_name(name))] for name in NETWORKS}
    histories = {name: [each.record.history for each in own] for name, own in models.items()}
    losses = {name: trainings[0] for name, trainings in histories.items()}
    torch.manual_seed(0)
    symmetries = data.system.reversing_symmetries
    ours = VolumePreservingTransformer(dim=3, window=3, reversing_symmetries=symmetries)
    histories["our VPT"] = [vp.train(ours, data, seconds=seconds)]
    _check(histories["our VPT"][0].stopped_by)
    fit = vp.fit(data, seconds=seconds)
    _check(fit.stopped_by)
    default = f"vp.fit ({fit.model.name})"
    models |= {"our VPT": [ours], default: [fit.model]}
    histories[default] = [each.history for each in fit.tried]
    vp.save(ours, output / "our-vpt.safetensors", overwrite=True)
    vp.save(fit.model, output / "our-default.safetensors", overwrite=True)
    (output / "figures").mkdir(exist_ok=True)
    for source, orbits in ORBITS.items():
        steps = round((time or orbits.time) / STEP)
        reference = vp.integrate(data.system, METHOD, np.array(orbits.initial), STEP, steps)
        report = vp.compare(models, "rk4", reference=reference)
        report.save(output / f"rollout-{source}.h5", overwrite=True)
        vp.draw(report, output / "figures" / source, overwrite=True)
        _print_errors(f"orbits of the {source}, to t = {steps * STEP:g}", report, models)
    _draw_losses(losses, Scene(report), output / "figures")
    _write_times(histories, models, output / "training-times.csv")


def file_name(name: str) -> str:
    """Return the name of the file of a network's weights."""
    return f"{name.replace(' ', '-').lower()}.safetensors"


def _train(
    data: vp.data.Dataset, epochs: int, seeds: int, initial: str, output: Path
) -> dict[str, list[Model]]:
    """Train each published network, or go on from a checkpoint; save what is trained."""
    models: dict[str, list[Model]] = {name: [] for name in NETWORKS}
    for name, own in models.items():
        for seed in range(seeds):
            torch.manual_seed(seed)
            model = NETWORKS[name]()
            if initial == "glorot":
                set_glorot(model)
            file = output / f"{Path(file_name(name)).stem}-{seed}.checkpoint"
            history = vp.train(
                *(model, data), recipe="published", epochs=epochs, seed=seed, checkpoint=file
            )
            _check(history.stopped_by)
            vp.save(model, file.with_suffix(".safetensors"), overwrite=True)
            own.append(model)
    return models


@torch.no_grad()
def set_glorot(model: Model) -> None:
    """Draw weights uniformly as Glorot and Bengio (2010) do, and set biases to zero.

    A vector of n entries of a triangular or skew-symmetric matrix counts as a column, as in the
    Julia package.
    """
    for name, weight in model.named_parameters():
        if name.endswith("bias"):
            weight.zero_()
            continue
        rows, columns = weight.shape[-2:] if weight.ndim > 1 else (len(weight), 1)
        bound = math.sqrt(6 / (rows + columns))
        weight.uniform_(-bound, bound)


def _check(ending: str) -> None:
    if ending == "interrupt":
        raise SystemExit(130)


def _draw_losses(curves: dict[str, History], scene: Scene, folder: Path) -> None:
    """Draw the training error of each published network over the epochs, as PNG and PDF."""
    figure, axes = pyplot.subplots(figsize=(3.4, 2.6), layout="constrained")
    for name, history in curves.items():
        look = scene.looks[name]
        axes.semilogy(
            history.epoch, history.training_error, color=look.colour, ls=look.line, label=name
        )
    axes.set(xlabel="epoch", ylabel="relative error, training")
    axes.xaxis.set_major_locator(MaxNLocator(3))
    figure.legend(loc="outside upper center", fontsize="small", ncols=2)
    for kind in ("png", "pdf"):
        figure.savefig(folder / f"training-loss.{kind}", dpi=300)
    pyplot.close(figure)


def _write_times(
    histories: dict[str, list[History]], models: dict[str, list[Model]], path: Path
) -> None:
    """Print the training times, and write them as CSV; medians where there are several seeds."""
    header = ["network", "parameters", "epochs", "seconds", "milliseconds an epoch"]
    rows: list[list[Any]] = []
    for name, trainings in histories.items():
        own = name.startswith("vp.fit")  # all trainings of the search
        total = sum if own else np.median
        epochs = int(total([each.epochs for each in trainings]))
        seconds = float(total([each.used for each in trainings]))
        size = sum(weight.numel() for weight in models[name][0].parameters())
        each = f"{1e3 * seconds / epochs:.4g}" if epochs else "-"
        rows.append([name, size, epochs, f"{seconds:.4g}", each])
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    click.echo(f"{'training':32s} {'parameters':>10s} {'epochs':>8s} {'seconds':>9s} {'ms':>9s}")
    for name, size, number, used, each in rows:
        click.echo(f"{name:32s} {size:10d} {number:8d} {used:>9s} {each:>9s}")


def _print_errors(title: str, report: vp.Report, models: dict[str, list[Model]]) -> None:
    """Print errors one step ahead, and the root mean square errors of both orbits."""
    click.echo(f"{title:32s} {'error':>9s} {'RMSE of orbits 1 and 2':>24s}")
    for name, run in report.runs.items():
        errors = [*run.root_mean_square_error]
        if name in models:
            tests = [model.record.history.test_error for model in models[name]]
            errors = [np.median(tests), *errors]
        click.echo(_row(run.title, errors))
        if name in LITERATURE and "tutorial" in title:
            click.echo(_row(f"{name}, published weights", LITERATURE[name]))


def _row(name: str, errors: Any) -> str:
    cells = [f"{error:.1e}" for error in errors]
    cells = ["-"] * (3 - len(cells)) + cells
    return f"{name:32s} {cells[0]:>9s} {cells[1]:>12s} {cells[2]:>12s}"


if __name__ == "__main__":
    main()
