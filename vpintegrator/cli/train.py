"""vp-train: train a neural integrator on a dataset."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vpintegrator.cli.architecture import build, find_architecture, flag, read_options
from vpintegrator.cli.common import (
    SETTINGS,
    compiled_option,
    console,
    overwrite_option,
    plain_errors,
    progress_bar,
    version_option,
)
from vpintegrator.errors import InputError

if TYPE_CHECKING:
    from types import FrameType

    from vpintegrator.data import Dataset
    from vpintegrator.models import Integrator
    from vpintegrator.training import History


# said again here because importing the architectures imports torch, too slow for --help;
# a test holds the two together
MODELS = {
    "vpt": "volume-preserving transformer: attention by rotations, then couplings",
    "vpff": "volume-preserving feed-forward network: one step by couplings or triangular layers",
    "vpmt": "volume-preserving multihead transformer: softmax attention inside couplings",
    "transformer": "standard transformer: multihead attention and residual layers, no structure",
    "resnet": "residual network: the plain baseline, no structure",
}


_SIZES = (
    "window",
    "prediction_window",
    "depth",
    "width",
    "heads",
    "weighting",
    "feed_forward",
    "activation",
)


class _Command(click.Command):
    """Adds the list of architectures to the help."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Models"):
            formatter.write_dl(list(MODELS.items()))


@click.command(context_settings=SETTINGS, cls=_Command)
@click.argument("dataset", type=click.Path(path_type=Path), metavar="DATASET.h5")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Model file to write.  [default: SYSTEM-MODEL.safetensors]",
)
@overwrite_option
@click.option("--model", default="vpt", show_default=True, help="Architecture, see below.")
@click.option("--start", type=click.Path(path_type=Path), help="Go on from a trained model.")
@click.option("--window", type=int, help="Time steps that the model reads.")
@click.option(
    "--prediction-window", type=int, help="How many of its output are new.  [default: window]"
)
@click.option("--depth", type=int, help="Blocks.")
@click.option("--width", type=int, help="Hidden units.")
@click.option("--heads", type=int, help="Attention heads.")
@click.option(
    "--weighting",
    help="Attention weighting: skew, coupled, arbitrary, or auto, which is skew where the "
    "symmetries allow it, else coupled.",
)
@click.option("--feed-forward", help="Feed-forward layers: coupling, triangular.")
@click.option("--activation", help="Activation function, such as tanh.")
@click.option(
    "--option",
    "extra",
    multiple=True,
    metavar="NAME=VALUE",
    help="Any other argument of the architecture's class, such as stiefel=true; "
    "split=halves, or blocks of components that couplings update in turn: split=0,1|2 or "
    "split=0-2|3-5.",
)
@click.option(
    "--reversible/--no-reversible",
    default=None,
    help="Build in the system's reversing symmetries.  [default: as many as the model can respect]",
)
@click.option(
    "--optimizer",
    default="auto",
    show_default=True,
    help="levenberg-marquardt, gauss-newton, adam, adamw, l-bfgs, or auto, which picks by size.",
)
@click.option("--target", type=float, help="Stop at this validation error.")
@click.option(
    "--loss",
    default="mean-square",
    show_default=True,
    help="mean-square (every component counts alike) or relative (the relative L2 error).",
)
@click.option(
    "--horizon", type=int, default=1, show_default=True, help="Predictions in a row to train on."
)
@click.option(
    "--noise",
    type=float,
    default=0.0,
    show_default=True,
    help="Noise on the inputs, in standard deviations of the states.",
)
@click.option(
    "--restarts",
    type=int,
    default=1,
    show_default=True,
    help="Random starts to try for half of the budget; the best gets the other half.",
)
@click.option("--seconds", type=float, help="Seconds to train.  [default: 150]")
@click.option("--epochs", type=int, help="Epochs (iterations of Levenberg-Marquardt) to train.")
@click.option(
    "--resume", is_flag=True, help="Go on from OUTPUT.checkpoint, which an interrupted run leaves."
)
@click.option(
    "--checkpoint-seconds",
    type=float,
    default=30.0,
    show_default=True,
    help="Interval between checkpoints.",
)
@click.option("--log", type=click.Path(path_type=Path), help="Folder for TensorBoard.")
@click.option("--batch", type=int, help="Windows in a step.")
@click.option("--learning-rate", type=float, help="Of Adam, at the start.  [default: 0.005]")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option(
    "--dtype", type=click.Choice(["float64", "float32"]), default="float64", show_default=True
)
@click.option("--device", default="cpu", show_default=True, help="cpu, cuda, mps or auto.")
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="CPU threads; one is the fastest for small models.",
)
@compiled_option(
    "Train as machine code, some ten times faster; auto where that pays, and from when on the "
    "compiler is done."
)
@version_option
@plain_errors
def main(
    dataset: Path,
    output: Path | None,
    overwrite: bool,
    model: str,
    start: Path | None,
    extra: tuple[str, ...],
    reversible: bool | None,
    seed: int,
    dtype: str,
    device: str,
    resume: bool,
    compiled: bool | None,
    **options: Any,
) -> None:
    """Train a neural integrator on the trajectories of a dataset.

    Ctrl-C ends the training and keeps the best model found so far. On several processes:
    torchrun --nproc-per-node N -m vpintegrator.cli.train DATASET.h5 ...

    \b
    Examples:
      vp-train rigid-body.h5 --model vpt -o vpt.safetensors
      vp-train rigid-body.h5 --model vpff --depth 4 --width 8 --seconds 60
    """
    from vpintegrator.data import open_dataset
    from vpintegrator.files import check_output
    from vpintegrator.models import load, save
    from vpintegrator.training import processes, train

    data = open_dataset(dataset)
    path = output or Path(f"{data.system.name}-{model}.safetensors")
    check_output(path, overwrite or resume)
    sizes = {key: options.pop(key) for key in _SIZES}
    notes: list[str] = []
    if start is not None:
        given = [flag(key) for key, value in sizes.items() if value is not None]
        given += [f"--option {entry}" for entry in extra]
        if given:
            raise InputError(f"--start takes the sizes from {start}; leave out {', '.join(given)}")
        network = load(start)
    else:
        architecture = find_architecture(model)
        given_options = read_options(architecture, sizes, extra)
        network, notes = build(data, architecture, given_options, reversible, seed, dtype)
    device = processes.start(_device(device))
    first = processes.rank() == 0
    if first:
        _announce(network, data, notes)
    signal.signal(signal.SIGTERM, _interrupt)
    history = _with_bar(
        lambda progress: train(
            network,
            data,
            seed=seed,
            normalise=start is None,
            device=device,
            checkpoint=path.with_name(f"{path.name}.checkpoint"),
            resume=resume,
            compiled=compiled,
            progress=progress if first else None,
            **options,
        ),
        options["seconds"],
        options["epochs"],
    )
    if first:
        save(network.cpu(), path, overwrite=overwrite or resume)
        _report(history, path)
    processes.stop()


def _device(name: str) -> str:
    import torch

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError):
        raise InputError(f"--device {name}: this device is not available here") from None
    return name


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _announce(model: Integrator, data: Dataset, notes: list[str]) -> None:
    count = sum(p.numel() for p in model.parameters())
    traits = ["volume-preserving" if model.volume_preserving else "not volume-preserving"]
    if len(model.reversing_symmetries):
        traits.append(f"reversible ({len(model.reversing_symmetries)} symmetries)")
    out = console()
    out.print(f"{model.name}: {', '.join(traits)}; {count} parameters", soft_wrap=True)
    for line in (model.description, *notes):
        out.print(f"  {line}", soft_wrap=True)
    out.print(
        f"  window {model.window}, predicting {model.prediction_window}; step {data.step:g}; "
        f"{data.shapes['train'][0]} training trajectories of {data.system.title}",
        soft_wrap=True,
    )


def _with_bar(run: Any, seconds: float | None, epochs: int | None) -> History:
    from rich.progress import TextColumn

    from vpintegrator.training.train import DEFAULT_SECONDS

    if seconds is None and epochs is None:
        seconds = DEFAULT_SECONDS
    columns = (
        TextColumn("epoch {task.fields[epoch]} ({task.fields[rate]})"),
        TextColumn("error {task.fields[training]}, validation {task.fields[validation]}"),
    )
    with progress_bar(*columns) as bar:
        task = bar.add_task("training", total=1.0, epoch=0, rate="", training="", validation="")

        def show(history: History) -> None:
            shares = [history.seconds[-1] / seconds] if seconds else []
            shares += [history.epoch[-1] / epochs] if epochs else []
            bar.update(
                task,
                completed=min(max(shares), 1.0),
                epoch=history.epochs,
                rate=f"{history.epochs / history.used:.2g}/s",
                training=f"{history.training_error[-1]:.1e}",
                validation=f"{history.validation_error[-1]:.1e}",
            )

        return run(show)


def _report(history: History, path: Path) -> None:
    out = console()
    ending = {
        "interrupt": "interrupted; the best model so far is kept, --resume goes on",
        "divergence": "the error exploded again and again; the best model before is kept",
    }.get(history.stopped_by, f"stopped by {history.stopped_by}")
    out.print(
        f"  {history.optimizer}{', compiled' if history.compiled else ''}: {history.epochs} epochs "
        f"in {history.used:.0f} s, {ending}",
        soft_wrap=True,
    )
    if history.rollbacks:
        out.print(f"  went back to the best weights {history.rollbacks} times", soft_wrap=True)
    out.print(
        f"  relative error one window ahead: validation {history.best_validation_error:.2e} "
        f"(epoch {history.best_epoch}), test {history.test_error:.2e}",
        soft_wrap=True,
    )
    out.print(f"  written to {path}", soft_wrap=True)


if __name__ == "__main__":
    main()
