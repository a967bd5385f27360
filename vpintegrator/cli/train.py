"""vp-train: train a neural integrator on a dataset."""

from __future__ import annotations

import hashlib
import math
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click
from click.core import ParameterSource

from vpintegrator.cli import training_report
from vpintegrator.cli.architecture import (
    FLAGS,
    flag,
    flags_of_models,
    given_names,
    help_of_options,
    read_options,
)
from vpintegrator.cli.common import (
    SETTINGS,
    compiled_option,
    console,
    device_option,
    overwrite_option,
    plain_errors,
    progress_bar,
    version_option,
)
from vpintegrator.cli.completion import models, offer
from vpintegrator.cli.judging import VERDICT_SECONDS, judge
from vpintegrator.cli.output import is_asked, output_options, write_json
from vpintegrator.cli.searching import Candidate, checked_fastest
from vpintegrator.errors import InputError
from vpintegrator.models.registry import ARCHITECTURES
from vpintegrator.names import LOSSES, OPTIMIZER_CLASSES, OPTIMIZERS, SPLITTINGS
from vpintegrator.storage.files import check_output

if TYPE_CHECKING:
    from collections.abc import Callable

    from vpintegrator.data import Dataset
    from vpintegrator.dynamics import System
    from vpintegrator.models import Integrator
    from vpintegrator.training import History, OrbitFit
    from vpintegrator.training.progress import Show


_ARGUMENTS = "vpintegrator.arguments"
_MOST_COMPONENTS = 5  # moving components; polynomials of more have too many terms
_MOST_EXACT = 16  # the same beside exact terms; an iteration inverts a matrix of this size
_FURTHER = 0.5  # of the budget of the training, spent in addition
_LOOKED_AT = 1_000_000  # states of which it is seen whether they have a place in a chart
_DEFAULT = ParameterSource.DEFAULT
_ABOUT_MODEL = ("model", "dtype", "reversible", "symmetries", "chart", *FLAGS)


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
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Model file to write.  [default: SYSTEM-MODEL.safetensors, with the model that is taken]",
)
@overwrite_option
@click.option(
    "--system",
    metavar="MODULE:NAME",
    help="The Python function that the trajectories are of, which is imported; it must give them.",
)
@click.option(
    "--model",
    default="auto",
    show_default=True,
    shell_complete=offer("auto", models),
    help="Architecture, see below. auto is what the system's structure admits: spff, a symplectic "
    "map of one step, for Hamiltonian systems in states (q, p), and vpff, which preserves volume, "
    "for others; spt and vpt with --window 2 or another option of their own; resnet where the flow "
    "changes volumes. Of complete states auto first solves for a generating function, sgf or vpgf "
    f"(at most {_MOST_COMPONENTS} moving components, {_MOST_EXACT} where the Hamiltonian is known, "
    "unless bodies are declared whose equations have exact parts), and trains splittings, split, "
    "where the equations are a sum of parts with exact flows. An explicit map, split, spff or "
    "vpff, is taken where its error is below 1e-14 or at most ten times as large as that of the "
    "generating function. Where nothing errs by less than 1e-9, couplings get the rest of the "
    "budget, and the best model is written.",
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
    "--symmetries/--no-symmetries",
    default=None,
    help="Build in the system's translations, rotations and permutations of bodies.  [default: "
    "where the model knows bodies, as spff does]",
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
    shell_complete=offer(*OPTIMIZERS),
    help=f"{', '.join(OPTIMIZER_CLASSES)}, or auto, which picks by size and by the time of an "
    "epoch.",
)
@click.option(
    "--kernel",
    default="auto",
    show_default=True,
    metavar="METHOD",
    shell_complete=offer("auto", "none", *SPLITTINGS),
    help=f"Splitting method of the system that polynomials begin as: "
    f"{', '.join(SPLITTINGS)}; none; "
    "or auto, Strang splitting in as many steps as fit.",
)
@click.option("--target", type=float, help="Stop at this validation error.")
@click.option(
    "--loss",
    default="mean-square",
    show_default=True,
    shell_complete=offer(*LOSSES),
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
    "--adaptive",
    type=click.IntRange(min=1),
    metavar="STATES",
    help="In the end, solve for the images of so many further states, chosen where the model errs "
    "most, and train on with them for half of the budget more; of known systems without noise, for "
    "models of one step.",
)
@click.option(
    "--orbits",
    type=click.IntRange(min=0),
    metavar="STEPS",
    help="Of noisy data: in the end, fit the model to stretches of orbits of so many steps, whose "
    "true first states are unknown too, for half of the budget more; for small models of one step; "
    "0 for no such fit.  [default: sgf and vpgf are fitted to orbits of 20 steps where states have "
    "noise]",
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
@click.option(
    "--log",
    type=click.Path(path_type=Path),
    help="Folder for TensorBoard.",
)
@click.option("--batch", type=int, help="Windows in a step.")
@click.option(
    "--learning-rate", type=float, help="Of first-order methods, at the start.  [default: 0.005]"
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option(
    "--dtype", type=click.Choice(["float64", "float32"]), default="float64", show_default=True
)
@device_option("Where to train; auto takes a GPU where a gradient is twice as fast there.")
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="CPU threads; one is the fastest for small models.",
)
@compiled_option(
    "Train as machine code, some ten times faster; auto where that pays, and from when on the "
    "compiler is done; gpu for kernels on a GPU, which runs PyTorch else."
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
@output_options
@version_option
@click.pass_context
@plain_errors
def main(
    context: click.Context,
    dataset: Path | None,
    output: Path | None,
    overwrite: bool,
    system: str | None,
    start: Path | None,
    adaptive: int | None,
    orbits: int | None,
    resume: bool,
    list_models: bool,
    verdict: bool,
    **options: Any,
) -> None:
    """Train a neural integrator on the trajectories of a dataset.

    Ctrl-C (or SIGTERM) ends the training and keeps the best model found so far; OUTPUT.checkpoint
    then holds the rest, for --resume; a search by --functions auto leaves its best model alone,
    at whatever stage it is interrupted, to go on from with --start. Use the same options with
    --resume; only the budget and what changes results by rounding at most (--threads, --device,
    --compiled) may be others.

    On several processes: torchrun --nproc-per-node N -m vpintegrator.cli.train DATASET.h5 ...

    Exit code: 0 if a model was trained and written, also after Ctrl-C; 130 after Ctrl-C before
    there was any; 1 if one of several processes was lost; 2 for a mistake, a model that had to
    be written to another place, or none because no validation error was finite.

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
    from vpintegrator.training import processes
    from vpintegrator.training.progress import training_bar

    terminate_as_interrupt()
    given = [n for n in context.params if context.get_parameter_source(n) is not _DEFAULT]
    _check_arguments(start, given, options)
    data = _opened(dataset, system, options)
    if adaptive is not None:
        from vpintegrator.training import AdaptiveData

        AdaptiveData(data)  # a mistake is told before the training
    candidate = _started(start, options) if start else _untrained(data, options)
    path = output or candidate.path(data)
    checkpoint = path.with_name(f"{path.name}.checkpoint")
    goes_on = resume and checkpoint.exists()
    candidate.choose(options, checkpoint if goes_on else None, orbits is None)
    _check_files(path, checkpoint, overwrite or goes_on, resume)
    candidate.check_other_paths(data, overwrite or output is not None)
    options["device"] = processes.start(options["device"])
    first = processes.rank() == 0
    if first:
        candidate.announce(data)
        if resume and not goes_on:
            console().print(
                f"  nothing was recorded in {checkpoint}: training begins anew", soft_wrap=True
            )
    before = _mark(path)
    files = {"output": path, "overwrite": overwrite or goes_on}
    files |= {"checkpoint": checkpoint, "resume": resume}
    try:
        with training_bar(quiet=is_asked("quiet") or not first) as show:
            network, history = candidate.train(data, options, files, show if first else None)
    except KeyboardInterrupt:  # before training began, or in the moment of its end
        _leave_interrupted(f"{path} is written" if _mark(path) != before else "nothing is written")
    path = candidate.written or path
    nothing = not history.epochs and math.isinf(history.best_validation_error)
    if first and not nothing:
        history = _trained_on(network, data, history, adaptive, orbits, options, path)
        training_report.report(history, path, checkpoint)
        if history.stopped_by != "interrupt":
            judge(network, data, path, candidate.cheapest, verdict)
        results = {"output": path, **model_results(network), "history": history.summary()}
        write_json(lambda: results)
    if history.stopped_by == "lost process":
        raise click.ClickException(
            "another process of this training is gone"
            + ("; --resume goes on from the last checkpoint" if checkpoint.exists() else "")
        )
    processes.stop()
    if nothing:
        _leave_interrupted("not an epoch was done, so nothing is written")


def _opened(path: Path, system: str | None, options: dict[str, Any]) -> Dataset:
    """Open the dataset, with the Python function asked for."""
    from vpintegrator.cli.own_code import load_system_asked
    from vpintegrator.data import ExtendedDataset, open_dataset

    data = open_dataset(path, load_system_asked(system, {}) if system else None)
    return ExtendedDataset(data) if data.is_family and options["model"] != "ict" else data


def _untrained(data: Dataset, options: dict[str, Any]) -> Candidate:
    """Return the architecture asked for, and remove its options from ``options``."""
    from vpintegrator.models.untrained import build, suited

    flags = {key: options.pop(key) for key in FLAGS}
    name, extra, dtype = (options.pop(key) for key in ("model", "extra", "dtype"))
    given, chart = given_names(flags, extra), _usable_chart(data, options.pop("chart"))
    of_neurons = {"width", "activation"} & given.keys() or dtype != "float64"
    of_neurons = of_neurons or options["optimizer"] not in ("auto", "levenberg-marquardt")
    if not of_neurons and options["restarts"] == 1:
        given = {"functions": "polynomial"} | given  # the functions to search for
    taken = suited(data.system, given, chart) if name == "auto" else name
    architecture = ARCHITECTURES.find(taken)
    fixed = {key: options.pop(key) for key in ("reversible", "symmetries")}
    fixed |= {"chart": chart, "seed": options["seed"], "dtype": dtype}

    def make(arguments: dict[str, Any]) -> Integrator:
        return build(data.system, name, **fixed, **arguments)

    candidate = Candidate(architecture, make, read_options(architecture, flags, extra), dtype)
    candidate.fastest, candidate.reversible = options.pop("fastest"), fixed["reversible"]
    if name == "auto" and not {*given} - {"functions"} and _is_plain(data, options, dtype):
        if data.system.has_formulas and not (data.system.is_discrete or data.is_family):
            candidate.composed = lambda more: build(data.system, "split", **fixed, **more)
        if 2 <= _moving(data) <= _most(data.system, chart, candidate.composed):
            candidate.solved = _generating_function(data, fixed)
    return candidate


def _most(system: System, chart: bool | None, composed: Callable[..., Integrator] | None) -> int:
    """Return the largest number of components for which generating functions are tried.

    The number is small if no Hamiltonian is known, or if splittings of declared bodies cost less.
    """
    from vpintegrator.models.untrained import is_made

    known = system if system.chart is None or chart is False else system.chart.system
    if not known.is_canonical or not known.hamiltonian_formula:
        return _MOST_COMPONENTS
    splits = system.bodies is not None and composed is not None and is_made(composed, {"stages": 1})
    return _MOST_COMPONENTS if splits else _MOST_EXACT


def _moving(data: Dataset) -> int:
    """Return the number of components without those for the parameters of a family."""
    family = data.system.family
    return data.dim - (0 if family is None else len(family.coefficients))


def _is_plain(data: Dataset, options: dict[str, Any], dtype: str) -> bool:
    """Whether what is asked for is a map of the states themselves, in double precision."""
    system = data.system
    plain = {"optimizer": "auto", "loss": "mean-square", "horizon": 1, "noise": 0.0}
    return (
        dtype == "float64"
        and (system.is_measured or not data.is_observed)
        and data.is_complete
        and system.may_preserve_volume
        and all(options[key] == value for key, value in plain.items())
    )


def _generating_function(data: Dataset, fixed: dict[str, Any]) -> Callable[..., Integrator]:
    """Make the generating function that suits a system."""
    from vpintegrator.models.untrained import build, suited

    polynomials = {"functions": "polynomial"}  # in which the angles of a chart are periodic
    name = "sgf" if suited(data.system, polynomials, fixed["chart"]) == "spff" else "vpgf"

    def make(arguments: dict[str, Any]) -> Integrator:
        return build(data.system, name, **fixed, **arguments)

    return make


def _usable_chart(data: Dataset, asked: bool | None) -> bool | None:
    """Whether to use the system's chart: not by default where some states have no place in it."""
    import numpy as np

    if data.system.chart is None or asked is not None:
        return asked
    _, length, _ = data.shapes["train"]
    states = data.states("train", slice(0, max(1, _LOOKED_AT // length)))
    states = states.reshape(-1, data.dim)
    with np.errstate(all="ignore"):
        known = np.isfinite(data.system.chart(states[np.isfinite(states).all(1)])).all()
    return None if known else False


def _started(path: Path, options: dict[str, Any]) -> Candidate:
    """Return a trained model to train further, with a record of its origin."""
    from vpintegrator.models import load
    from vpintegrator.models.growth import rest_attention
    from vpintegrator.models.one_step import without_attention

    for name in (*_ABOUT_MODEL, "extra", "fastest"):
        del options[name]
    model = load(path)
    if model.name == "ict":
        raise InputError("ict is trained in one go: leave out --start, and give more --seconds")
    if without_attention(model) is not None:  # attention layers stay frozen
        rest_attention(model)
    for name in ("verdict", "fastest"):  # results of the model before the training
        model.metadata.pop(name, None)
    model.metadata["start"] = path.name
    model.metadata["start_fingerprint"] = hashlib.sha256(path.read_bytes()).hexdigest()
    return Candidate(type(model), network=model, normalise=False)


def _trained_on(
    network: Integrator,
    data: Dataset,
    history: History,
    adaptive: int | None,
    orbits: int | None,
    options: dict[str, Any],
    path: Path,
) -> History:
    """Train a model on by what is asked for beside; an interrupt leaves it as it was written."""
    from vpintegrator.training.progress import training_bar

    try:
        if adaptive is not None and history.stopped_by != "interrupt":
            with training_bar(quiet=is_asked("quiet")) as show:
                history = _train_where_wrong(network, data, adaptive, options, path, show)
        if orbits and history.stopped_by != "interrupt":
            fit = _fit_orbits(network, data, orbits, options, path)
            error, test_error = fit.validation_error, fit.test_error
            history = replace(history, best_validation_error=error, test_error=test_error)
    except KeyboardInterrupt:
        return replace(history, stopped_by="interrupt")
    return history


def _train_where_wrong(
    network: Integrator,
    data: Dataset,
    states: int,
    options: dict[str, Any],
    path: Path,
    show: Show | None,
) -> History:
    """Train a trained model on with further states where it errs, and write it again."""
    from vpintegrator.models import save
    from vpintegrator.training import Budget, train_where_wrong

    budget = Budget(options["seconds"], options["epochs"]).or_default().part(_FURTHER)
    history = train_where_wrong(
        network,
        data,
        states,
        seconds=budget.seconds,
        epochs=budget.epochs,
        seed=options["seed"],
        progress=show,
    )
    save(network, path, overwrite=True)
    return history


def _fit_orbits(
    network: Integrator, data: Dataset, length: int, options: dict[str, Any], path: Path
) -> OrbitFit:
    """Fit a trained model to stretches of orbits, and write it again."""
    from vpintegrator.models import save
    from vpintegrator.training import Budget, fit_orbits

    budget = Budget(options["seconds"], options["epochs"]).or_default().part(_FURTHER)
    limits = {} if budget.epochs is None else {"epochs": budget.epochs}
    with progress_bar() as bar:
        task = bar.add_task("orbits", total=None)

        def show(iteration: int, distance: float) -> None:
            bar.update(task, description=f"orbits: {distance:.2g} after {iteration} iterations")

        fit = fit_orbits(network, data, length, seconds=budget.seconds, progress=show, **limits)
    save(network, path, overwrite=True)
    train, validation = (errors[fit.best - 1] for errors in (fit.training, fit.validation))
    console().print(
        f"  fitted to {fit.stretches[0]:,} stretches of {fit.length} steps: observations lie "
        f"{train:.2g} standard deviations off, {validation:.2g} in the validation group",
        soft_wrap=True,
    )
    return fit


def _check_arguments(start: Path | None, given: list[str], options: dict[str, Any]) -> None:
    """Refuse what is wrong whatever the dataset is, before any file is opened."""
    from vpintegrator.runtime.devices import check_device
    from vpintegrator.training import Budget, Execution, Files, Method, Objective

    refused = [flag(name) for name in _ABOUT_MODEL if name in given]
    refused += [f"--option {entry}" for entry in options["extra"]]
    if start is not None and refused:
        raise InputError(
            f"--start takes the model and its sizes from {start}; leave out {', '.join(refused)}"
        )
    if options["model"] != "auto":
        architecture = ARCHITECTURES.find(options["model"])
        read_options(architecture, {name: options[name] for name in FLAGS}, options["extra"])
    if options["fastest"] is not None:
        options["target"] = checked_fastest(options["fastest"], given, options["model"])
    check_device(options["device"], "--device")
    for group in (Method, Budget, Objective, Execution, Files):
        group(**{f.name: options[f.name] for f in fields(group) if f.name in options})


def _check_files(path: Path, checkpoint: Path, overwrite: bool, resume: bool) -> None:
    """Refuse to overwrite what is not to be lost."""
    check_output(path, overwrite)
    if checkpoint.exists() and not (resume or overwrite):
        raise InputError(
            f"{checkpoint} holds a training that was not finished; go on with --resume, or begin "
            "anew with --overwrite"
        )


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
