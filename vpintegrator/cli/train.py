"""vp-train: train a neural integrator on a dataset."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click
from click.core import ParameterSource

from vpintegrator.cli.architecture import (
    FLAGS,
    flag,
    flags_of_models,
    given_names,
    help_of_options,
    model_options,
    read_options,
)
from vpintegrator.cli.common import (
    SETTINGS,
    compiled_option,
    console,
    overwrite_option,
    plain_errors,
    version_option,
)
from vpintegrator.cli.output import is_asked, output_options, write_json
from vpintegrator.cli.searching import (
    SEARCHING,
    after_search,
    chosen_functions,
    search,
)
from vpintegrator.errors import InputError
from vpintegrator.models.registry import ARCHITECTURES

if TYPE_CHECKING:
    from vpintegrator.data import Dataset
    from vpintegrator.models import Integrator
    from vpintegrator.training import History


_ARGUMENTS = "vpintegrator.arguments"


class _Command(click.Command):
    """Adds the list of architectures to the help, or the options of the one that is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_ARGUMENTS] = list(args)  # --help is obeyed before --model is read
        return super().parse_args(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        named = " ".join(ctx.meta.get(_ARGUMENTS, ())).replace("--model=", "--model ").split()
        at = named.index("--model") + 1 if "--model" in named else len(named)
        name = named[at] if at < len(named) else ""
        if name in ARCHITECTURES:
            with formatter.section(f"Options of {name}"):
                formatter.write_dl(help_of_options(ARCHITECTURES.find(name)))
            return
        with formatter.section("Models (--model NAME --help shows the options of one)"):
            formatter.write_dl(list(ARCHITECTURES.descriptions().items()))


@click.command(context_settings=SETTINGS, cls=_Command)
@click.argument("dataset", required=False, type=click.Path(path_type=Path), metavar="DATASET.h5")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Model file to write.  [default: SYSTEM-MODEL.safetensors]",
)
@overwrite_option
@click.option(
    "--model",
    default="auto",
    show_default=True,
    help="Architecture, see below. auto is vpff, which of all stays closest to true orbits on most "
    "systems of the catalogue and preserves the volume of phase space itself; vpt with --window 2 "
    "or another option of its own; resnet where the flow changes volumes.",
)
@click.option(
    "--start",
    type=click.Path(path_type=Path),
    help="Go on from a trained model, with new data or another budget.",
)
@flags_of_models
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
    help="levenberg-marquardt, gauss-newton, adam, adamw, l-bfgs, or auto, which picks by size "
    "and by the time of an epoch.",
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
@click.option(
    "--patience",
    type=int,
    help="Stop when the validation error has not fallen by a tenth in so many epochs.  [default: "
    "300 after --functions auto]",
)
@click.option("--seconds", type=float, help="Seconds to train.  [default: 150]")
@click.option("--epochs", type=int, help="Epochs (iterations of Levenberg-Marquardt) to train.")
@click.option(
    "--resume",
    is_flag=True,
    help="Go on from OUTPUT.checkpoint, which an interrupted run leaves; begin if there is none.",
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
@click.option("--list-models", is_flag=True, help="List the architectures and their options.")
@output_options
@version_option
@click.pass_context
@plain_errors
def main(
    context: click.Context,
    dataset: Path | None,
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
    list_models: bool,
    **options: Any,
) -> None:
    """Train a neural integrator on the trajectories of a dataset.

    Ctrl-C (or SIGTERM) ends the training and keeps the best model found so far; OUTPUT.checkpoint
    then holds the rest, for --resume; a search by --functions auto leaves its best model alone, to
    go on from with --start. Use the same options with --resume; only the budget and what
    changes results by rounding at most (--threads, --device, --compiled) may be others.

    On several processes: torchrun --nproc-per-node N -m vpintegrator.cli.train DATASET.h5 ...

    Exit code: 0 if a model was trained and written, also after Ctrl-C; 130 after Ctrl-C before
    there was any; 1 if one of several processes was lost; 2 for a mistake, or a model that had to
    be written to another place.

    \b
    Examples:
      vp-train rigid-body.h5
      vp-train rigid-body.h5 --depth 4 --width 8 --seconds 60
      vp-train rigid-body.h5 --model vpt --window 3 -o vpt.safetensors
    """
    if list_models:
        _list_models()
        return
    if dataset is None:
        raise InputError("name the dataset to train on; vp-gen makes one")
    from vpintegrator.cli.results import model_results
    from vpintegrator.data import open_dataset
    from vpintegrator.files import check_output, safe_name
    from vpintegrator.interrupts import terminate_as_interrupt
    from vpintegrator.training import processes, train
    from vpintegrator.training.output import save_somewhere
    from vpintegrator.training.progress import training_bar

    terminate_as_interrupt()
    data = open_dataset(dataset)
    sizes = {key: options.pop(key) for key in FLAGS}
    if start is not None:
        given = [
            flag(key)
            for key in ("model", "dtype", "reversible", *FLAGS)
            if context.get_parameter_source(key) is not ParameterSource.DEFAULT
        ]
        given += [f"--option {entry}" for entry in extra]
        if given:
            raise InputError(
                f"--start takes the model and its sizes from {start}; leave out {', '.join(given)}"
            )
        network, searching = _started(start), False
        architecture = type(network)
    else:
        from vpintegrator.models.untrained import build, suited

        if model == "auto":
            model = suited(data.system, given_names(sizes, extra))
        architecture = ARCHITECTURES.find(model)

        def make(arguments: dict[str, Any]) -> Integrator:
            return build(
                data.system, model, reversible=reversible, seed=seed, dtype=dtype, **arguments
            )

        arguments = read_options(architecture, sizes, extra)
    path = output or Path(f"{safe_name(data.system.name)}-{architecture.name}.safetensors")
    checkpoint = path.with_name(f"{path.name}.checkpoint")
    goes_on = resume and checkpoint.exists()
    check_output(path, overwrite or goes_on)
    if checkpoint.exists() and not (resume or overwrite):
        raise InputError(
            f"{checkpoint} holds a training that was not finished; go on with --resume, or begin "
            "anew with --overwrite"
        )
    if start is None:
        arguments, searching = chosen_functions(
            architecture, arguments, options, dtype, checkpoint if goes_on else None, make
        )
        if not searching:
            network = make(arguments)
    device = processes.start(_device(device))
    first = processes.rank() == 0
    if first:
        if searching:
            console().print(f"{architecture.name}: {SEARCHING}", soft_wrap=True)
        else:
            _announce(network, data)
        if resume and not goes_on:
            console().print(
                f"  nothing was recorded in {checkpoint}: training begins anew", soft_wrap=True
            )
    before = _mark(path)
    common: dict[str, Any] = {"seed": seed, "device": device, "compiled": compiled}
    ended = ""
    try:
        with training_bar(quiet=is_asked("quiet") or not first) as show:
            if searching:
                found = search(data, make, arguments, options | common, show)
                network, history, ended = found.model, found.history, found.ended
                options, show = after_search(found, options, show)
                _announce(network, data)
            if ended == "interrupt":
                save_somewhere(network, path, overwrite)
            else:
                history = train(
                    network,
                    data,
                    normalise=start is None,
                    checkpoint=checkpoint,
                    resume=resume,
                    output=path,
                    overwrite=overwrite or goes_on,
                    progress=show if first else False,
                    **common,
                    **options,
                )
    except KeyboardInterrupt:  # before training began, or in the moment of its end
        _leave_interrupted(f"{path} is written" if _mark(path) != before else "nothing is written")
    nothing = not history.epochs and math.isinf(history.best_validation_error)
    if first and not nothing:
        _report(history, path, checkpoint)
        write_json(lambda: {"output": path, **model_results(network), "history": history.summary()})
    if history.stopped_by == "lost process":
        raise click.ClickException(
            "another process of this training is gone"
            + ("; --resume goes on from the last checkpoint" if checkpoint.exists() else "")
        )
    processes.stop()
    if nothing:
        _leave_interrupted("not an epoch was done, so nothing is written")


def _list_models() -> None:
    out = console()
    for name, description in ARCHITECTURES.descriptions().items():
        out.print(f"{name}: {description}", style="bold", soft_wrap=True)
        for given, words in help_of_options(ARCHITECTURES.find(name)):
            out.print(f"  {given:<44} {words}", soft_wrap=True)
    write_json(
        lambda: {
            name: {
                "description": description,
                "options": [
                    {"option": given, "help": words, "default": default}
                    for given, words, default in model_options(ARCHITECTURES.find(name))
                ],
            }
            for name, description in ARCHITECTURES.descriptions().items()
        }
    )


def _leave_interrupted(what: str) -> NoReturn:
    console().print(f"  interrupted; {what}", soft_wrap=True, markup=False)
    raise SystemExit(130)


def _mark(path: Path) -> tuple[int, int] | None:
    """What tells a file from another of its name."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _started(path: Path) -> Integrator:
    """A trained model to go on from, which remembers what it came from."""
    from vpintegrator.models import load

    model = load(path)
    model.metadata["start"] = path.name
    model.metadata["start_fingerprint"] = hashlib.sha256(path.read_bytes()).hexdigest()
    return model


def _device(name: str) -> str:
    import torch

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError):
        raise InputError(f"--device {name}: this device is not available here") from None
    return name


def _announce(model: Integrator, data: Dataset) -> None:
    count = sum(p.numel() for p in model.parameters())
    traits = ["volume-preserving" if model.volume_preserving else "not volume-preserving"]
    if model.symplectic:
        traits = ["symplectic"]
    if len(model.reversing_symmetries):
        traits.append(f"reversible ({len(model.reversing_symmetries)} symmetries)")
    out = console()
    out.print(f"{model.name}: {', '.join(traits)}; {count} parameters", soft_wrap=True)
    for line in (model.description, *model.choices):
        out.print(f"  {line}", soft_wrap=True)
    out.print(
        f"  window {model.window}, predicting {model.prediction_window}; step {data.step:g}; "
        f"{data.shapes['train'][0]} training trajectories of {data.system.title}",
        soft_wrap=True,
    )


def _report(history: History, path: Path, checkpoint: Path) -> None:
    out = console()
    goes_on = ", --resume goes on" if checkpoint.exists() else ""
    ending = {
        "interrupt": f"interrupted; the best model so far is kept{goes_on}",
        "lost process": "stopped for lack of another process; the best model so far is kept",
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
    if history.overfitted:
        out.print(
            f"  the training windows were learned better and others worse after epoch "
            f"{history.best_epoch}: give more trajectories, --noise or --horizon",
            soft_wrap=True,
        )
    out.print(f"  written to {path}", soft_wrap=True)


if __name__ == "__main__":
    main()
