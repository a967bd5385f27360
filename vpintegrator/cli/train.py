"""vp-train: train a neural integrator on a dataset."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from vpintegrator.arguments import positive, whole
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
    common_options,
    compiled_option,
    device_option,
    file_options,
    tell,
)
from vpintegrator.cli.output import is_asked, verbose_option, write_json
from vpintegrator.errors import InputError
from vpintegrator.models.registry import ARCHITECTURES
from vpintegrator.names import OPTIMIZERS, SPLITTINGS
from vpintegrator.storage.files import check_output, locked, safe_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpintegrator.data import Dataset
    from vpintegrator.training import Fit, Kind

_ARGUMENTS = "vpintegrator.arguments"
_DEFAULT = ParameterSource.DEFAULT
# arguments of vp.train that are options, with their defaults
_TRAINING = {
    "optimizer": "auto",
    "initial_scheme": "auto",
    "loss": "mean-square",
    "horizon": 1,
    "noise": 0.0,
    "patience": None,
    "batch": None,
    "learning_rate": None,
    "device": "cpu",
    "compiled": None,
}


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
    help="Architecture, see below. auto tries every kind of map that the system admits, and keeps "
    "the best: linear maps of measured states, splittings, generating functions, polynomial "
    "regression, couplings, networks.",
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
    "--seeds",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Train so many models, with seeds from --seed on, each for the whole budget; their files "
    "are numbered from 0.",
)
@click.option(
    "--recipe",
    type=click.Choice(["published"]),
    help="Network and training of arXiv 2312.11166, with --model vpff, vpt or transformer.",
)
@click.option(
    "--dtype", type=click.Choice(["float64", "float32"]), default="float64", show_default=True
)
@device_option("Where to train.")
@compiled_option(
    "Train as machine code, some ten times faster; auto where the compiler takes less than half of "
    "the budget; models on a GPU train in PyTorch."
)
@click.option(
    "--prefer",
    type=click.Choice(["error", "cost"]),
    default="error",
    show_default=True,
    help="cost takes the cheapest step whose error is at most --target, among all kinds of maps "
    "and classical methods with substeps.",
)
@click.option(
    "--verdict/--no-verdict",
    default=True,
    help="Compare a step of the model with classical methods where the equations are known.",
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
      vp-train rigid-body.h5 --model vpt --seeds 5 -o vpt.safetensors
      vp-train circles.h5 --model vpt --recipe published --epochs 2000
    """
    if list_models:
        training_report.list_models()
        return
    if dataset is None:
        raise InputError("name the dataset to train on; vp-gen makes one")
    given = {n for n in context.params if context.get_parameter_source(n) is not _DEFAULT}
    _check(values, start, given)

    import vpintegrator as vp
    from vpintegrator.cli.own_code import load_system_asked
    from vpintegrator.runtime.interrupts import terminate_as_interrupt
    from vpintegrator.training.kinds import TAKEN

    terminate_as_interrupt()
    data = vp.open_dataset(dataset, load_system_asked(system, {}) if system else None)
    _, name = _kinds(values, data, start, values["seed"])
    names: tuple[str, ...] = TAKEN if name == "auto" else (name,)
    names += ("classical",) if values["prefer"] == "cost" else ()
    files = {n: output or Path(f"{safe_name(data.system.name)}-{n}.safetensors") for n in names}
    count, written = values["seeds"], []
    numbered = [{n: _numbered(files[n], k, count) for n in names} for k in range(count)]
    for path in (path for paths in numbered for path in paths.values()):
        check_output(path, overwrite)
    training_report.announce(data)
    for seed, paths in enumerate(numbered, values["seed"]):
        result, path = _train(values, data, start, seed, paths, overwrite)
        written.append((result, path))
        if result.stopped_by == "interrupt":
            break
    if count > 1:
        training_report.summarise([result for result, _ in written])
    write_json(lambda: training_report.all_results(written, count))


def _seconds(values: dict[str, Any]) -> dict[str, Any]:
    """Return the seconds of a fit as an argument; epochs alone end a published training."""
    if values["recipe"] is not None and values["seconds"] is None and values["epochs"]:
        return {"seconds": None}
    return {} if values["seconds"] is None else {"seconds": values["seconds"]}


def _numbered(path: Path, number: int, count: int) -> Path:
    """Return the file of one of several models."""
    return path if count == 1 else path.with_stem(f"{path.stem}-{number}")


def _train(
    values: dict[str, Any],
    data: Dataset,
    start: Path | None,
    seed: int,
    paths: dict[str, Path],
    overwrite: bool,
) -> tuple[Fit, Path]:
    """Train, write and report a model; return it with its file, one of ``paths`` by its name."""
    import vpintegrator as vp
    from vpintegrator.models.saving import save_somewhere
    from vpintegrator.runtime.interrupts import held_back

    with locked(next(iter(paths.values()))), held_back() as signals:  # what took long is written
        result = vp.fit(
            data,
            _kinds(values, data, start, seed)[0],
            epochs=values["epochs"],
            prefer=values["prefer"],
            target=values["target"],
            seed=seed,
            progress=_progress(),
            **_seconds(values),
        )
        if start is not None:
            result.model.metadata["start"] = start.name
        path = paths[result.model.name]
        save_somewhere(result.model, path, overwrite)
        if result.stopped_by == "interrupt":
            signals.forget()  # it asks again for an end that is reached
    tell(str(result))
    if is_asked("verbose"):
        for line in result.model.choices:
            tell(f"  {line}")
    if values["verdict"] and result.stopped_by != "interrupt":
        training_report.judge(result, data, path)
    tell(f"  written to {path}")
    return result, path


def _check(values: dict[str, Any], start: Path | None, given: set[str]) -> None:
    """Tell mistakes before any data are read."""
    from vpintegrator.runtime.devices import check_device

    check_device(values["device"], "--device")
    for name, check in (("seconds", positive), ("target", positive), ("epochs", whole)):
        if values[name] is not None:
            check(name, values[name])
    refused = [
        flag(name) for name in ("model", "dtype", "reversible", "chart", *FLAGS) if name in given
    ]
    refused += [f"--option {entry}" for entry in values["extra"]]
    if start is not None and refused:
        raise InputError(
            f"--start takes the model and its sizes from {start}; leave out {', '.join(refused)}"
        )
    if values["recipe"] is not None:
        name = values["model"]
        if name == "auto" or not hasattr(ARCHITECTURES.find(name), "published"):
            raise InputError("--recipe published is for --model vpff, vpt or transformer")
        if refused := [each for each in refused if each != "--model"]:
            raise InputError(f"--recipe takes sizes as published; leave out {', '.join(refused)}")
    if values["model"] != "auto":
        read_options(ARCHITECTURES.find(values["model"]), _flags(values), values["extra"])


def _kinds(
    values: dict[str, Any], data: Dataset, start: Path | None, seed: int
) -> tuple[Sequence[Kind], str]:
    """Return the kinds of maps that the options ask for, and the name of the architecture."""
    import torch

    from vpintegrator.models import load, suited
    from vpintegrator.training.kinds import Network, kinds_of
    from vpintegrator.training.one_step import KEY

    training = {
        name: values[name] for name, default in _TRAINING.items() if values[name] != default
    }
    if start is not None:
        model = load(start)
        model.metadata.pop(KEY, None)  # the table of the model before the training
        return [Network(model=model, training=training)], model.name
    name = values["model"]
    if values["recipe"] is not None:
        torch.manual_seed(seed)
        model = ARCHITECTURES.find(name).published(data.dim)  # type: ignore[attr-defined]
        return [Network(model=model, training=training | {"recipe": values["recipe"]})], name
    named = given_names(_flags(values), values["extra"])
    options = {}
    if named:
        suitable = suited(data.system, named, values["chart"]) if name == "auto" else name
        options = read_options(ARCHITECTURES.find(suitable), _flags(values), values["extra"])
    options |= {key: values[key] for key in ("reversible", "chart") if values[key] is not None}
    options |= {"dtype": values["dtype"]} if values["dtype"] != "float64" else {}
    return kinds_of(name, options, training), name


def _flags(values: dict[str, Any]) -> dict[str, Any]:
    return {name: values[name] for name in FLAGS}


def _progress() -> Any:
    """Return what ``vp.fit`` calls: nothing, a function that prints each model, or its bar."""
    if is_asked("quiet"):
        return False
    return _tell_trial if is_asked("verbose") else True


def _tell_trial(fit: Fit) -> None:
    tell(f"  {fit.line}")


if __name__ == "__main__":
    main()
