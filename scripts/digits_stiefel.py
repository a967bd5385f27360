#!/usr/bin/env python
"""Do Stiefel weights help a transformer to learn? Handwritten digits, over several seeds."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import click
import torch
from torch.func import functional_call, stack_module_state, vmap

from vpintegrator import nn
from vpintegrator.cli.common import SETTINGS, console, overwrite_option, plain_errors, progress_bar
from vpintegrator.errors import InputError
from vpintegrator.files import check_output, replacing
from vpintegrator.models import ClassificationTransformer
from vpintegrator.nn.stiefel import orthonormality_error
from vpintegrator.threads import torch_threads

WEIGHTS = {"Glorot": "#0072b2", "orthonormal": "#e69f00", "Stiefel": "#009e73"}
RECIPES = {
    # (residual, loss); the published one is that of the Julia package's MNIST tutorial
    "published": (False, "distance"),
    "usual": (True, "cross-entropy"),
}
TITLES = {
    "published": "no residual, distance to one-hot labels",
    "usual": "residual, cross-entropy",
}
RATES = (1e-3, 3e-3, 1e-2)
DEPTH, TRAINING, VALIDATION, BATCH = 16, 1000, 300, 100
FAILED = 0.2  # accuracy of a network that has learnt nothing is near 0.1


@dataclass
class Run:
    """One way of training, for all seeds: a row per epoch, a column per seed."""

    recipe: str
    weights: str
    rate: float
    loss: torch.Tensor
    validation: torch.Tensor
    test: torch.Tensor
    orthonormality: float


class Logits(torch.nn.Module):
    """The model before its softmax, as a module of its own for ``functional_call``."""

    def __init__(self, model: ClassificationTransformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.model.logits(images)


def build(recipe: str, weights: str, seed: int, depth: int) -> Logits:
    """8 x 8 pixels as 4 patches of 16, read by ``depth`` units with 4 heads, no normalisation."""
    torch.manual_seed(seed)
    model = ClassificationTransformer(
        height=8,
        width=8,
        patch=4,
        classes=10,
        depth=depth,
        heads=4,
        residual=RECIPES[recipe][0],
        stiefel=weights == "Stiefel",
        dtype=torch.float32,
    )
    if weights == "Glorot":  # the layer's own start is orthonormal, constrained or not
        for layer in attention_layers(model):
            for projection in (*layer.query, *layer.key, *layer.value):
                torch.nn.init.xavier_uniform_(projection)
    return Logits(model)


def attention_layers(model: torch.nn.Module) -> Iterator[Any]:
    return (layer for layer in model.modules() if isinstance(layer, nn.MultiHeadAttention))


def losses(recipe: str, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The loss of each seed, for logits (seed, image, class) and labels (seed, image)."""
    if RECIPES[recipe][1] == "cross-entropy":
        each = torch.nn.functional.cross_entropy(logits.mT, labels, reduction="none")
        return each.mean(-1)
    # ||softmax - one-hot|| / ||one-hot|| over the batch
    one_hot = torch.nn.functional.one_hot(labels, 10)
    return (torch.softmax(logits, -1) - one_hot).norm(dim=(-2, -1)) / labels.shape[-1] ** 0.5


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """The 1797 digits, (image, 8, 8) from 0 to 1, and their labels."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise InputError(
            "the digits come with scikit-learn, which is not installed: pip install scikit-learn"
        ) from None
    data = load_digits()
    return torch.tensor(data.images / 16, dtype=torch.float32), torch.tensor(data.target)


def train(job: tuple[str, str, float, int, int, int]) -> Run:
    """Train the networks of all seeds at once, stacked along a first axis by torch.func.

    A seed decides the start, the order of the batches, and which digits are for training,
    validation and test. Adam works entry by entry, so the stack learns as each would alone.
    """
    recipe, weights, rate, seeds, epochs, depth = job
    with torch_threads():
        images, labels = digits()
        generators = [torch.Generator().manual_seed(seed) for seed in range(seeds)]
        order = torch.stack([torch.randperm(len(images), generator=g) for g in generators])
        parts = order.split([TRAINING, VALIDATION, len(images) - TRAINING - VALIDATION], dim=1)

        models = [build(recipe, weights, seed, depth) for seed in range(seeds)]
        parameters, buffers = stack_module_state(models)  # type: ignore[arg-type]
        network = vmap(lambda p, b, x: functional_call(models[0], (p, b), (x,)))
        optimizer = torch.optim.Adam(parameters.values(), lr=rate)

        @torch.no_grad()
        def accuracy(part: torch.Tensor) -> torch.Tensor:
            guess = network(parameters, buffers, images[part]).argmax(-1)
            return (guess == labels[part]).float().mean(-1)

        loss_curve, validation_curve = [], []
        for _ in range(epochs):
            passed = torch.zeros(seeds)
            shuffled = torch.stack([torch.randperm(TRAINING, generator=g) for g in generators])
            for batch in parts[0].gather(1, shuffled).split(BATCH, dim=1):
                optimizer.zero_grad()
                loss = losses(recipe, network(parameters, buffers, images[batch]), labels[batch])
                loss.sum().backward()
                optimizer.step()
                passed += loss.detach() * BATCH / TRAINING
            loss_curve.append(passed)
            validation_curve.append(accuracy(parts[1]))

        with torch.no_grad():
            for name, trained in parameters.items():
                models[0].get_parameter(name).copy_(trained[0])
        deviation = max(
            orthonormality_error(weight)
            for layer in attention_layers(models[0])
            for weight in (layer.query, layer.key, layer.value)
        )
        curves = torch.stack(loss_curve), torch.stack(validation_curve)
        return Run(recipe, weights, rate, *curves, accuracy(parts[2]), deviation)


def train_all(jobs: list[Any], processes: int) -> Iterator[Run]:
    if processes == 1:
        yield from map(train, jobs)
    else:
        with ProcessPoolExecutor(processes) as pool:
            yield from pool.map(train, jobs)


def best(runs: Iterable[Run], recipe: str, weights: str) -> Run:
    """The learning rate with the best mean validation accuracy at the end."""
    candidates = [run for run in runs if (run.recipe, run.weights) == (recipe, weights)]
    return max(candidates, key=lambda run: float(run.validation[-1].mean()))


def report(runs: list[Run]) -> None:
    from rich.table import Table

    out = console()

    def spread(values: torch.Tensor, digits: int) -> str:
        deviation = values.std() if len(values) > 1 else torch.zeros(())
        return f"{values.mean():.{digits}f} ± {deviation:.{digits}f}"

    for recipe in RECIPES:
        seeds = len(runs[0].test)
        table = Table(
            "weights",
            *("rate", "training loss", "test accuracy / %", "failed runs", "|WWᵀ - I|"),
            title=f"{recipe}: {TITLES[recipe]}",
            title_style="bold",
            title_justify="left",
            box=None,
        )
        for weights in WEIGHTS:
            run = best(runs, recipe, weights)
            tests = [r.test for r in runs if (r.recipe, r.weights) == (recipe, weights)]
            failed = int((torch.cat(tests) < FAILED).sum())
            table.add_row(
                weights,
                f"{run.rate:g}",
                spread(run.loss[-1], 3),
                spread(100 * run.test, 1),
                f"{failed} of {len(tests) * seeds}",
                f"{run.orthonormality:.0e}",
            )
        out.print(table)
        stiefel = best(runs, recipe, "Stiefel").test
        for weights in ("Glorot", "orthonormal"):
            gain = 100 * (stiefel - best(runs, recipe, weights).test)
            error = gain.std() / seeds**0.5 if seeds > 1 else torch.tensor(float("nan"))
            out.print(
                f"Stiefel against {weights} start, same seeds: test accuracy "
                f"{gain.mean():+.1f} points (standard error {error:.1f})",
                soft_wrap=True,
            )
        out.print()
    out.print(
        "Mean ± standard deviation over the seeds at the learning rate of the best mean validation "
        f"accuracy; failed: test accuracy below {100 * FAILED:.0f} %, at any rate.",
        soft_wrap=True,
    )


def draw(runs: list[Run]) -> Any:
    """Learning curves at each variant's best rate, and the accuracy against the rate."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 6), layout="constrained")
    axes = figure.subplots(2, 3)
    for row, recipe in zip(axes, RECIPES, strict=True):
        for offset, (weights, colour) in zip((0.93, 1.0, 1.075), WEIGHTS.items(), strict=True):
            run = best(runs, recipe, weights)
            epoch = torch.arange(1, len(run.loss) + 1)
            for axis, curve in ((row[0], run.loss), (row[1], 100 * run.validation)):
                label = f"{weights}, rate {run.rate:g}"
                axis.plot(epoch, curve.median(1).values, color=colour, label=label)
                low, high = curve.min(1).values, curve.max(1).values
                axis.fill_between(epoch, low, high, color=colour, alpha=0.2, linewidth=0)
            for other in runs:
                if (other.recipe, other.weights) == (recipe, weights):
                    rate = [other.rate * offset] * len(other.test)
                    row[2].plot(rate, 100 * other.test, "o", color=colour, ms=4, alpha=0.6)
        row[0].set(ylabel=f"training loss ({RECIPES[recipe][1]})", yscale="log")
        row[0].legend(fontsize=8, title=f"{recipe}: {TITLES[recipe]}", title_fontsize=8)
        row[1].set(ylabel="validation accuracy / %", ylim=(0, 100))
        row[2].set(ylabel="test accuracy / %", ylim=(0, 100), xscale="log")
        row[2].set_xticks(RATES, [f"{rate:g}" for rate in RATES])
        row[2].minorticks_off()
    for axis, label in zip(axes[1], ("epoch", "epoch", "learning rate of Adam"), strict=True):
        axis.set_xlabel(label)
    return figure


@click.command(context_settings=SETTINGS)
@click.option("--seeds", default=5, show_default=True, type=click.IntRange(min=1))
@click.option("--epochs", default=25, show_default=True, type=click.IntRange(min=1))
@click.option(
    "--depth",
    default=DEPTH,
    show_default=True,
    type=click.IntRange(min=1),
    help="Units of attention and residual layer.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("digits-stiefel"),
    show_default=True,
    metavar="FOLDER",
    help="Receives learning_curves.png and .pdf.",
)
@overwrite_option
@click.option(
    "--processes",
    default=min(os.cpu_count() or 1, 4),
    show_default="one a core, up to 4",
    type=click.IntRange(min=1),
)
@plain_errors
def main(
    seeds: int, epochs: int, depth: int, output: Path, overwrite: bool, processes: int
) -> None:
    """Train a transformer on handwritten digits with and without Stiefel weights.

    A classification transformer without normalisation layers reads 8 x 8 pixels as four patches.
    The projections of its attention are free and start from Glorot's distribution; are free and
    start orthonormal; or stay orthonormal, on the Stiefel manifold. Each is trained with Adam at
    three learning rates, by the published recipe (attention without residual, distance to the
    one-hot labels: arXiv 2305.16901 and GeometricMachineLearning.jl) and by the usual one (with
    residual, cross-entropy). Takes a few minutes on two cores.
    """
    digits()
    output.mkdir(parents=True, exist_ok=True)
    files = [check_output(output / f"learning_curves.{s}", overwrite) for s in ("png", "pdf")]
    grid = product(RECIPES, WEIGHTS, RATES)
    # those that take longest first, so that the last ones end together
    jobs = [(*job, seeds, epochs, depth) for job in sorted(grid, key=lambda j: j[1] != "Stiefel")]
    runs = []
    with progress_bar() as progress:
        task = progress.add_task("training", total=len(jobs))
        for run in train_all(jobs, processes):
            runs.append(run)
            progress.advance(task)
    report(runs)
    figure = draw(runs)
    for path in files:
        with replacing(path, overwrite) as temporary:
            figure.savefig(temporary, format=path.suffix[1:], dpi=200)
    console().print(f"figure: {files[0]}, {files[1].name}", soft_wrap=True)


if __name__ == "__main__":
    main()
