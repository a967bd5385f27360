#!/usr/bin/env python
"""Do Stiefel weights help a transformer to learn? Handwritten digits, over several seeds."""

from __future__ import annotations

import os
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
from vpintegrator.models import ClassificationTransformer
from vpintegrator.runtime.threads import torch_threads
from vpintegrator.storage.files import check_output, replacing

WEIGHTS = {"Glorot": "#0072b2", "orthonormal": "#e69f00", "Stiefel": "#009e73"}
RECIPES = {
    "published": "no residual, distance to one-hot labels",
    "usual": "residual, cross-entropy",
}
RATES = (1e-3, 3e-3, 1e-2)
TRAINING, VALIDATION, BATCH = 1000, 300, 50  # the other 497 digits are for the test
FAILED = 0.2  # a network that has learnt nothing has an accuracy near 0.1


@dataclass
class Run:
    """One way of training, for all seeds; curves have a row per epoch and a column per seed."""

    recipe: str
    weights: str
    rate: float
    loss: torch.Tensor
    validation: torch.Tensor
    test: torch.Tensor
    deviation: float  # of the first seed's trained projections from orthonormal ones


class Classifier(ClassificationTransformer):
    """Reads 8 x 8 pixels as 4 patches of 16, without normalisation; gives logits."""

    def __init__(self, recipe: str, weights: str, seed: int, depth: int) -> None:
        torch.manual_seed(seed)
        sizes: dict[str, Any] = {"height": 8, "width": 8, "patch": 4, "classes": 10, "heads": 4}
        super().__init__(**sizes, depth=depth, residual=recipe == "usual", dtype=torch.float32)
        for layer, name in self.projections():
            # they are orthonormal now; Stiefel weights, the same at first, will always be
            if weights == "Glorot":
                for projection in getattr(layer, name):
                    torch.nn.init.xavier_uniform_(projection)
            elif weights == "Stiefel":
                nn.stiefel(layer, name)

    def projections(self) -> list[tuple[torch.nn.Module, str]]:
        """Where those of all heads are: a layer and the name of its attribute."""
        layers = [layer for layer in self.modules() if isinstance(layer, nn.MultiHeadAttention)]
        return list(product(layers, ("query", "key", "value")))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.logits(images)


def loss_of_each_seed(recipe: str, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """For logits (seed, image, class) and labels (seed, image)."""
    if recipe == "usual":
        return torch.nn.functional.cross_entropy(logits.mT, labels, reduction="none").mean(-1)
    # |softmax - one-hot| / |one-hot| over the batch
    one_hot = torch.nn.functional.one_hot(labels, 10)
    return (torch.softmax(logits, -1) - one_hot).norm(dim=(-2, -1)) / labels.shape[-1] ** 0.5


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """The 1797 digits, (image, 8, 8) from 0 to 1, and their labels."""
    try:
        from sklearn.datasets import load_digits  # type: ignore[import-untyped]
    except ImportError:
        raise InputError(
            "the digits come with scikit-learn, which is not installed: pip install scikit-learn"
        ) from None
    data = load_digits()
    return torch.tensor(data.images / 16, dtype=torch.float32), torch.tensor(data.target)


@torch_threads()
def train(job: tuple[str, str, float, int, int, int]) -> Run:
    """Train the networks of all seeds at once, stacked along a first axis by torch.func.

    A seed decides the start, the order of the batches, and which digits are for training,
    validation and test. Adam works entry by entry, so each learns as it would alone.
    """
    recipe, weights, rate, seeds, epochs, depth = job
    images, labels = digits()
    generators = [torch.Generator().manual_seed(seed) for seed in range(seeds)]
    order = torch.stack([torch.randperm(len(images), generator=g) for g in generators])
    training, validation, test = order.tensor_split([TRAINING, TRAINING + VALIDATION], dim=1)

    models = [Classifier(recipe, weights, seed, depth) for seed in range(seeds)]
    parameters, buffers = stack_module_state(models)
    network = vmap(lambda p, b, x: functional_call(models[0], (p, b), (x,)))
    optimizer = torch.optim.Adam(parameters.values(), lr=rate)

    @torch.no_grad()
    def accuracy(part: torch.Tensor) -> torch.Tensor:
        guess = network(parameters, buffers, images[part]).argmax(-1)
        return (guess == labels[part]).float().mean(-1)

    losses, accuracies = [], []
    for _ in range(epochs):
        mean_loss = torch.zeros(seeds)
        shuffled = torch.stack([torch.randperm(TRAINING, generator=g) for g in generators])
        for batch in training.gather(1, shuffled).split(BATCH, dim=1):
            optimizer.zero_grad()
            logits = network(parameters, buffers, images[batch])
            loss = loss_of_each_seed(recipe, logits, labels[batch])
            loss.sum().backward()
            optimizer.step()
            mean_loss += loss.detach() * BATCH / TRAINING
        losses.append(mean_loss)
        accuracies.append(accuracy(validation))

    first = {name: trained[0].detach() for name, trained in parameters.items()}
    models[0].load_state_dict(first, strict=False)
    deviation = max(nn.orthonormality_error(getattr(*pair)) for pair in models[0].projections())
    curves = torch.stack(losses), torch.stack(accuracies)
    return Run(recipe, weights, rate, *curves, accuracy(test), deviation)


def tuned(runs: list[Run], recipe: str, weights: str) -> tuple[Run, list[Run]]:
    """The learning rate with the best mean validation accuracy at the end, and all of them."""
    same = [run for run in runs if (run.recipe, run.weights) == (recipe, weights)]
    return max(same, key=lambda run: float(run.validation[-1].mean())), same


def report(runs: list[Run]) -> None:
    from rich.table import Table

    out = console()

    def spread(values: torch.Tensor, digits: int) -> str:
        return f"{values.mean():.{digits}f} ± {values.std(correction=0):.{digits}f}"

    for recipe, description in RECIPES.items():
        columns = ("weights", "rate", "training loss", "test accuracy / %", "failed", "|WWᵀ - I|")
        table = Table(*columns, box=None)
        for weights in WEIGHTS:
            run, same = tuned(runs, recipe, weights)
            tests = torch.cat([other.test for other in same])
            results = spread(run.loss[-1], 3), spread(100 * run.test, 1)
            failed = f"{int((tests < FAILED).sum())} of {len(tests)}"
            table.add_row(weights, f"{run.rate:g}", *results, failed, f"{run.deviation:.0e}")
        out.print(f"[bold]{recipe}[/bold]: {description}")
        out.print(table)
        for weights in ("Glorot", "orthonormal"):
            stiefel, other = (tuned(runs, recipe, w)[0].test for w in ("Stiefel", weights))
            gain = spread(100 * (stiefel - other), 1)
            out.print(f" test accuracy with Stiefel less that with {weights}: {gain} points")
        out.print()
    out.print(
        "Mean ± standard deviation over the seeds, at the learning rate of the best mean "
        "validation accuracy. Differences are within a seed. Failed: runs, at any rate, that end "
        f"with a test accuracy below {100 * FAILED:.0f} %.",
        soft_wrap=True,
    )


def draw(runs: list[Run]) -> Any:
    """Learning curves at each variant's best rate, and the accuracy against the rate."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 6.5), layout="constrained")
    axes = figure.subplots(2, 3)
    for row, (recipe, description) in zip(axes, RECIPES.items(), strict=True):
        for offset, (weights, colour) in zip((0.92, 1.0, 1.09), WEIGHTS.items(), strict=True):
            run, same = tuned(runs, recipe, weights)
            epoch = torch.arange(1, len(run.loss) + 1)
            for axis, curve in ((row[0], run.loss), (row[1], 100 * run.validation)):
                axis.xaxis.get_major_locator().set_params(integer=True)
                middle, low, high = curve.median(1).values, curve.amin(1), curve.amax(1)
                axis.plot(epoch, middle, color=colour, label=weights)
                axis.fill_between(epoch, low, high, color=colour, alpha=0.15, lw=0)
            for other in same:
                rate, marker = [offset * other.rate] * len(other.test), "o" if other is run else "x"
                row[2].plot(rate, 100 * other.test, marker, color=colour, ms=5, alpha=0.7)
        row[0].set(ylabel=f"training loss, {recipe} recipe")
        row[0].set_title(description, fontsize=11)
        row[0].set_yscale("log" if recipe == "usual" else "linear")
        row[1].set(
            ylabel="validation accuracy / %", title="median and range of the seeds", ylim=(0, 100)
        )
        row[2].set(ylabel="test accuracy / %", title="every seed; dots: chosen rate")
        row[2].set(ylim=(0, 100), xscale="log", xticks=RATES, xticklabels=map(str, RATES))
        row[2].minorticks_off()
    for axis, label in zip(axes[1], ("epoch", "epoch", "learning rate of Adam"), strict=True):
        axis.set_xlabel(label)
    handles = axes[0, 0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside upper center", ncols=len(WEIGHTS), frameon=False)
    return figure


@click.command(context_settings=SETTINGS | {"show_default": True})
@click.option("--seeds", default=5, type=click.IntRange(1), help="Networks of each kind.")
@click.option("--epochs", default=12, type=click.IntRange(1), help="Passes over 1000 digits.")
@click.option("--depth", default=16, type=click.IntRange(1), help="Attention layers of a network.")
@click.option("--processes", default=min(os.cpu_count() or 1, 4), type=click.IntRange(1))
@click.option(
    *("-o", "--output"),
    default="digits-stiefel",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for learning_curves.png and .pdf.",
)
@overwrite_option
@plain_errors
def main(
    seeds: int, epochs: int, depth: int, processes: int, output: Path, overwrite: bool
) -> None:
    """Train a transformer on handwritten digits with and without Stiefel weights.

    The projections of its attention are free and start as Glorot's, are free and start orthonormal,
    or stay orthonormal, on the Stiefel manifold. Each is trained with Adam at three learning rates,
    by the published recipe (attention without residual, distance to one-hot labels: arXiv
    2305.16901 and GeometricMachineLearning.jl) and by the usual one (residual, cross-entropy), both
    without normalisation layers. Takes a few minutes on two cores.
    """
    digits()
    output.mkdir(parents=True, exist_ok=True)
    files = [check_output(output / f"learning_curves.{kind}", overwrite) for kind in ("png", "pdf")]
    grid = [(*job, seeds, epochs, depth) for job in product(RECIPES, reversed(WEIGHTS), RATES)]
    with progress_bar() as progress, ProcessPoolExecutor(processes) as pool:
        results = map(train, grid) if processes == 1 else pool.map(train, grid)
        runs = list(progress.track(results, total=len(grid), description="training"))
    report(runs)
    figure = draw(runs)
    for path in files:
        with replacing(path, overwrite) as temporary:
            figure.savefig(temporary, format=path.suffix[1:], dpi=200)
    console().print(f"figure: {files[0]}, {files[1]}", soft_wrap=True)


if __name__ == "__main__":
    main()
