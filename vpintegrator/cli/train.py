"""vp-train: train a neural integrator on a dataset."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click
from click.core import ParameterSource

from vpintegrator.cli import training_report
from vpintegrator.cli.architecture import (
    FLAGS,
    flags_of_models,
    help_of_options,
)
from vpintegrator.cli.candidates import (
    MOST_COMPONENTS,
    MOST_EXACT,
    ModelOptions,
    started,
    untrained,
)
from vpintegrator.cli.common import (
    SETTINGS,
    common_options,
    compiled_option,
    console,
    device_option,
    file_options,
)
from vpintegrator.cli.judging import VERDICT_SECONDS, judge
from vpintegrator.cli.output import is_asked, verbose_option, write_json
from vpintegrator.errors import InputError
from vpintegrator.models.registry import ARCHITECTURES
from vpintegrator.names import OPTIMIZERS, SPLITTINGS
from vpintegrator.runtime.deadline import BEYOND, TimeIsUp
from vpintegrator.storage.files import check_output

if TYPE_CHECKING:
    from vpintegrator.data import Dataset
    from vpintegrator.training.search.options import SearchOptions


Group = TypeVar("Group")

_ARGUMENTS = "vpintegrator.arguments"
_DEFAULT = ParameterSource.DEFAULT


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
@click.argument(
    "dataset",
    required=False,
    type=click.Path(path_type=Path),
    metavar="DATASET.h5",
)
@file_options(
    "Model file to write.  [default: SYSTEM-MODEL.safetensors, with the model that is taken]"
)
@click.option(
    "--system",
    metavar="MODULE:NAME",
    help="The Python function that the trajectories are of, which is imported; it must give them.",
)
@click.option(
    "--model",
    default="auto",
    show_default=True,
    help="Architecture, see below. auto is what the system's structure admits: spff, a symplectic "
    "map of one step, for Hamiltonian systems in states (q, p), and vpff, which preserves volume, "
    "for others; spt and vpt with --window 2 or another option of their own; resnet where the flow "
    "changes volumes. Of measured states auto tries linear maps before all else, and takes one "
    "whose error is at most 1e-12. Of complete states auto first solves for a generating "
    f"function, sgf or vpgf (at most {MOST_COMPONENTS} moving components, {MOST_EXACT} where the "
    "Hamiltonian is known and is no sum of parts with exact flows), and trains splittings, split, "
    "where the equations are such a sum. An "
    "explicit map, split, spff or vpff, is taken where its error is below 1e-14 or at most ten "
    "times as large as that of the generating function. Where nothing errs by less than 1e-9, "
    "couplings get the rest of the budget, and the best model is written.",
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
    "--chart/--no-chart",
    default=None,
    help="Work in the coordinates of the system's chart, in which it preserves volume.  [default: "
    "where the system has one and the model preserves its volume]",
)
@click.option(
    "--optimizer",
    default="auto",
    show_default=True,
    help=f"{', '.join(OPTIMIZERS[1:])}, or auto, which picks by size.",
)
@click.option(
    "--initial-scheme",
    default="auto",
    show_default=True,
    metavar="METHOD",
    help=f"Splitting method of the system that polynomials begin as: "
    f"{', '.join(SPLITTINGS)}; none; "
    "or auto, Strang splitting in as many steps as fit.",
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
    "--patience",
    type=int,
    help="Stop when the validation error has not fallen by a tenth in so many epochs.  [default: "
    "300 after --functions auto]",
)
@click.option("--seconds", type=float, help="Seconds to train.  [default: 150]")
@click.option("--epochs", type=int, help="Epochs (iterations of Levenberg-Marquardt) to train.")
@click.option("--batch", type=int, help="Windows in a step.")
@click.option(
    "--learning-rate", type=float, help="Of first-order methods, at the start.  [default: 0.005]"
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option(
    "--dtype", type=click.Choice(["float64", "float32"]), default="float64", show_default=True
)
@device_option("Where to train.")
@compiled_option(
    "Train as machine code, some ten times faster; auto where the compiler takes less than half of "
    "the budget; models on a GPU train in PyTorch."
)
@click.option(
    "--fastest",
    type=float,
    metavar="ERROR",
    help="Of the models that auto tries, take the one of the cheapest step whose validation error "
    "is at most ERROR; each is trained until its error is so small.",
)
@click.option(
    "--verdict/--no-verdict",
    default=True,
    help="Compare a step of the model with classical methods where the equations are known; takes "
    f"some {VERDICT_SECONDS:.0f} seconds, as methods are compiled.",
)
@click.option("--list-models", is_flag=True, help="List the architectures and their options.")
@common_options
@verbose_option
@click.pass_context
def main(
    context: click.Context,
    dataset: Path | None,
    output: Path | None,
    overwrite: bool,
    system: str | None,
    start: Path | None,
    list_models: bool,
    **values: Any,
) -> None:
    """Train a neural integrator on the trajectories of a dataset.

    Ctrl-C (or SIGTERM) ends the training and writes the best model found so far; --start goes on
    from it.

    Exit code: 0 if a model was trained and written, also after Ctrl-C; 130 after Ctrl-C before
    there was any; 2 for a mistake, a model that had to be written to another place, or none
    because no validation error was finite.

    \b
    Examples:
      vp-train rigid-body.h5
      vp-train rigid-body.h5 --depth 4 --width 8 --seconds 60
      vp-train rigid-body.h5 --model vpt --window 3 -o vpt.safetensors
    """
    if list_models:
        training_report.list_models()
        return
    if dataset is None:
        raise InputError("name the dataset to train on; vp-gen makes one")
    from vpintegrator.cli.results import model_results
    from vpintegrator.runtime.interrupts import terminate_as_interrupt
    from vpintegrator.training import Files
    from vpintegrator.training.history import training_bar

    terminate_as_interrupt()
    given = [n for n in context.params if context.get_parameter_source(n) is not _DEFAULT]
    verdict = values.pop("verdict")
    asked, options = _read(values, start, given)
    data = _opened(dataset, system, asked)
    candidate = started(start) if start else untrained(data, asked, options)
    path = output or candidate.path(data)
    candidate.choose(options)
    check_output(path, overwrite)
    candidate.check_other_paths(data, overwrite or output is not None)
    candidate.announce(data)
    before = _mark(path)
    files = Files(path, overwrite)
    try:
        with training_bar(quiet=is_asked("quiet")) as show:
            options = replace(options, progress=show)
            candidate.search(data, options)
            history = candidate.train(data, options, files)
    except TimeIsUp:
        raise _nothing_in_time(options) from None
    except KeyboardInterrupt:  # before training began, or in the moment of its end
        _leave_interrupted(f"{path} is written" if _mark(path) != before else "nothing is written")
    path, network = candidate.written or path, candidate.trained
    nothing = not history.epochs and math.isinf(history.best_validation_error)
    if not nothing:
        training_report.report(network, history, path)
        if history.stopped_by != "interrupt":
            judge(network, data, path, candidate.cheapest, _end(options), verdict)
        results = {"output": path, **model_results(network), "history": history.summary()}
        write_json(lambda: results)
    if nothing and history.stopped_by == "seconds":
        raise _nothing_in_time(options)
    if nothing:
        _leave_interrupted("not an epoch was done, so nothing is written")


def _opened(path: Path, system: str | None, asked: ModelOptions) -> Dataset:
    """Open the dataset, with the Python function asked for."""
    from vpintegrator.cli.own_code import load_system_asked
    from vpintegrator.data import ExtendedDataset, open_dataset

    data = open_dataset(path, load_system_asked(system, {}) if system else None)
    return ExtendedDataset(data) if data.is_family else data


def _read(
    values: dict[str, Any], start: Path | None, given: list[str]
) -> tuple[ModelOptions, SearchOptions]:
    """Return the options by what they are about; mistakes are told before any file is opened."""
    from vpintegrator.runtime.devices import check_device
    from vpintegrator.training import Budget, Execution, Method, Objective
    from vpintegrator.training.search.options import SearchOptions

    flags = {name: values.pop(name) for name in FLAGS}
    own = {f.name: values.pop(f.name) for f in fields(ModelOptions) if f.name in values}
    asked = ModelOptions(**own, flags=flags)
    asked.check(start, given)
    check_device(values["device"], "--device")
    if asked.fastest is not None:
        values["target"] = asked.fastest
    options = SearchOptions(
        _group(Budget, values),
        _group(Method, values),
        _group(Objective, values),
        _group(Execution, values),
    )
    return asked, options


def _group(kind: type[Group], values: dict[str, Any]) -> Group:
    """Return a group of options from the values that belong to it."""
    names = {each.name for each in fields(kind)} & values.keys()  # type: ignore[arg-type]
    return kind(**{name: values[name] for name in names})


def _end(options: SearchOptions) -> float:
    """Return the time at which everything that follows a training ends."""
    return replace(options, budget=options.budget.or_default()).end(BEYOND)


def _nothing_in_time(options: SearchOptions) -> InputError:
    seconds = options.budget.or_default().seconds or 0.0
    return InputError(f"no model was trained in {seconds:g} seconds; give more --seconds")


def _leave_interrupted(what: str) -> NoReturn:
    console().print(f"  interrupted; {what}", soft_wrap=True, markup=False)
    raise SystemExit(130)


def _mark(path: Path) -> tuple[int, int] | None:
    """Return the inode and modification time of a file; None if there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


if __name__ == "__main__":
    main()
