"""vp-train: the best map of a dataset, or a model that is named."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vpintegrator.cli import command as cli
from vpintegrator.cli.arguments import kinds_asked, read_arguments
from vpintegrator.cli.study import read_study_entries, read_workers, run_study
from vpintegrator.errors import InputError
from vpintegrator.names import OPTIMIZERS
from vpintegrator.storage.files import locked

if TYPE_CHECKING:
    from vpintegrator.data import Dataset
    from vpintegrator.models import Model
    from vpintegrator.training import Fit, Kind

VERDICT_SECONDS = 30.0  # to compile classical methods and measure costs of a step
_LIMITS = ("seconds", "epochs", "target", "prefer")  # arguments of vp.fit
_TRAINING = ("optimizer", "batch", "learning_rate", "device")  # arguments of vp.train


@cli.command
@click.argument("dataset", type=click.Path(path_type=Path), metavar="DATASET")
@cli.group(
    "What",
    model=cli.text("NAME", "One of vp-show models. [the best of all kinds]"),
    equations=cli.flag("Use the equations of the system, too; by default the states alone."),
    search=cli.flag("Search the sizes of --model: functions, degree, depth."),
    invariants=cli.flag("Let --model keep invariants that the orbits show."),
    window=cli.whole(1, "States that the model reads. [1; of a transformer 3]"),
    depth=cli.whole(1, "Number of layers. [of the model]"),
    width=cli.whole(1, "Neurons of a layer. [of the model]"),
    set=cli.many("NAME=VALUE", "Another argument of the model; vp-show NAME lists them."),
    study=cli.many("NAME=V,V,...", "Train with each value; also model, count, noise, seconds."),
    start=cli.text("MODEL", "Go on from a trained model.", type=click.Path(path_type=Path)),
    recipe=cli.choice(
        "published", ["published"], "Training of arXiv 2312.11166 (--model vpt, ...)."
    ),
)
@cli.group(
    "How much",
    seconds=cli.number("TIME", "Seconds to train. [150]"),
    epochs=cli.whole(1, "Iterations of each training."),
    target=cli.number("ERROR", "Stop at this validation error."),
    prefer=cli.choice("WHAT", ["error", "cost"], "cost: the cheapest step below --target. [error]"),
    optimizer=cli.choice(
        "NAME",
        OPTIMIZERS,
        "levenberg-marquardt, adam, stiefel-adam, momentum, l-bfgs, linear. [by size]",
    ),
    batch=cli.whole(1, "Windows in a step of the optimizer."),
    learning_rate=cli.number("RATE", "Of Adam (0.005) and momentum (0.1), at first."),
    seed=cli.whole(0, "Seed of weights and batches. [0]", default=0),
    seeds=cli.whole(1, "Train N models with different seeds. [1]", default=1),
    workers=cli.text("N", "Processes of a study, or the address of a dask scheduler. [1]"),
    device=cli.text("DEVICE", "Where to train: cpu, cuda, cuda:N or mps. [cpu]"),
)
@cli.output_group(
    "Model to write, or folder of a study. [DATASET-NAME.safetensors]",
    "Print each model that is tried, and what was chosen.",
)
def main(
    dataset: Path,
    model: str | None,
    equations: bool,
    search: bool,
    invariants: bool,
    set: tuple[str, ...],
    study: tuple[str, ...],
    start: Path | None,
    recipe: str | None,
    seed: int,
    seeds: int,
    workers: str | None,
    output: Path | None,
    overwrite: bool,
    **values: Any,
) -> None:
    """Train a map of one step on a dataset: the best of all kinds, or a model that you name.

    Ctrl-C ends the training and writes the best model so far; --start goes on from it.

    \b
    Examples:
      vp-train rigid-body.h5 --model vpt --set functions=polynomial
      vp-train rigid-body.h5 --model vpt --window 3 --depth 2 --seeds 5
      vp-train rigid-body.h5
      vp-train rigid-body.h5 --seconds 60 -v
      vp-train rigid-body.h5 --model vpff --set functions=polynomial --set degree=6
      vp-train rigid-body.h5 --model vpt --study window=2,3,5 --seeds 5 --seconds 60 --workers 2
    """
    import vpintegrator as vp
    from vpintegrator.overview import fit_facts
    from vpintegrator.runtime.devices import check_device
    from vpintegrator.runtime.interrupts import terminate_as_interrupt

    check_device(values["device"] or "cpu", "--device")
    training = cli.given(**{name: values.pop(name) for name in _TRAINING})
    limits = cli.given(**{name: values.pop(name) for name in _LIMITS})
    if study:
        flags = {"search": search or None, "invariants": invariants or None}
        absent = {"start": start, "recipe": recipe, **flags}
        _refuse_beside_study(absent | limits | training)
        known = read_arguments(model, cli.given(**values), set)
        fixed = {key: value for key, value in known.items() if key != "reversing_symmetries"}
        run_study(
            dataset,
            model,
            output or Path(f"{dataset.stem}-{model or 'models'}-study"),
            overwrite,
            {
                "vary": read_study_entries(model, study),
                "arguments": fixed,
                "reversible": None if len(fixed) == len(known) else False,
                "equations": equations,
                "seed": seed,
                "seeds": seeds,
                **limits,
                **training,
                **read_workers(workers),
            },
        )
        return
    if workers is not None:
        raise InputError("--workers is for trainings of a study: give --study, too")
    limits["equations"] = equations
    if invariants and limits.get("prefer") == "cost":
        raise InputError("--prefer cost takes the map as it is: leave out --invariants")
    if recipe and "epochs" in limits:  # epochs alone end a published training
        limits = {"seconds": None} | limits
    window = values["window"] if model is None else None
    options = cli.given(**values)
    if model is None and not (start or recipe):
        options.pop("window", None)
        _refuse_without_model(
            [
                *options,
                *training,
                *(["set"] if set else []),
                *["search"] * search,
                *["invariants"] * invariants,
            ]
        )
    arguments = read_arguments(model, options, set)
    wrong = [
        *arguments,
        *["search"] * search,
        *["model"] * (start is not None and model is not None),
    ]
    if (start or recipe) and wrong:
        raise InputError(f"the model has its own sizes; leave out {', '.join(wrong)}")
    data = vp.open_dataset(dataset)
    name = f"{dataset.stem}-{model}" if model else dataset.stem
    name = f"{start.stem}-continued" if start else name
    path = output or Path(f"{name}.safetensors")
    numbered = [path.with_stem(f"{path.stem}-{place}") for place in range(1, seeds + 1)]
    paths = numbered if seeds > 1 else [path]

    def check() -> None:
        kinds = kinds_asked(data, model, search, arguments, training, start, recipe, seed)
        _check(data, kinds, limits)

    cli.check_outputs(paths, overwrite, check)
    terminate_as_interrupt()
    count, states, _ = data.shapes["train"]
    steps = f"{count:,} training trajectories of {states - 1} steps of {data.step_text}"
    cli.say(f"{data.path}: {data.system.title}, {steps}")
    results = []
    for place, each in enumerate(paths, seed):
        kinds = kinds_asked(data, model, search, arguments, training, start, recipe, place)
        if invariants:
            kinds = [*kinds, vp.training.KeptInvariants()]
        results.append(
            _train(data, kinds, limits | {"seed": place, "window": window}, each, overwrite)
        )
        if invariants and not results[-1].keeps_invariants:
            reason = _why_no_invariants(results[-1])
            cli.say(f"  no invariants are kept: {reason}")
        if results[-1].stopped_by == "interrupt":
            break
    if seeds > 1:
        errors = sorted(fit.error for fit in results)
        median = statistics.median(errors)
        cli.say(
            f"{len(errors)} seeds: median error {median:.2e}, {errors[0]:.2e} to {errors[-1]:.2e}"
        )
    pairs = zip(results, paths, strict=False)
    facts = [{"output": each, **fit_facts(fit)} for fit, each in pairs]
    cli.write_json(lambda: facts[0] if seeds == 1 else {"models": facts})


def _refuse_beside_study(options: dict[str, Any]) -> None:
    """Refuse options that a study has no use for."""
    for name in ("start", "recipe", "search", "invariants", "target", "prefer", "device"):
        if options.get(name) is not None:
            raise InputError(f"--{name} has no part in a study: leave out --{name}, or --study")


def _refuse_without_model(names: Sequence[str]) -> None:
    """Refuse options that say how one model is made or trained."""
    if names:
        option = f"--{names[0].replace('_', '-')}"
        raise InputError(f"{option} has no effect on a search of all kinds; give --model NAME, too")


def _check(data: Dataset, kinds: Sequence[Kind], limits: dict[str, Any]) -> None:
    """Raise InputError for limits that are none, or a model that cannot be built."""
    from vpintegrator.training import Budget, Network
    from vpintegrator.training.training_data import TrainingData

    Budget(*(limits.get(name) for name in ("seconds", "epochs", "target")))
    if limits.get("prefer") == "cost" and "target" not in limits:
        raise InputError("--prefer cost needs the largest error that is allowed: give --target")
    known = TrainingData(data)
    for kind in kinds:
        if isinstance(kind, Network):
            model = kind.model or kind.build(known, kind.architecture, 0)
            known.check(model)
            data.windows(model.window, model.prediction_window)


def _train(
    data: Dataset, kinds: Sequence[Kind], limits: dict[str, Any], path: Path, overwrite: bool
) -> Fit:
    """Train, write and report a model."""
    import vpintegrator as vp
    from vpintegrator.models import Model
    from vpintegrator.models.saving import save_somewhere
    from vpintegrator.runtime.interrupts import held_back

    show = _say_trial if cli.is_set("verbose") else not cli.is_set("quiet")
    with locked(path), held_back() as signals:  # what took long is written
        fit = vp.fit(data, kinds, progress=show, **limits)
        if isinstance(fit.model, Model):
            save_somewhere(fit.model, path, overwrite)
        if fit.stopped_by == "interrupt":
            signals.forget()  # it asks again for an end that is reached
    cli.say(fit)
    if not isinstance(fit.model, Model):
        cli.say(f"  {fit.model.name} is a classical method, and needs no file: vp-rollout knows it")
        return fit
    for line in fit.model.choices if cli.is_set("verbose") else ():
        cli.say(f"  {line}")
    if fit.stopped_by != "interrupt":
        _judge(fit.model, data, path)
    cli.say(f"  written to {path}")
    return fit


def _why_no_invariants(fit: Fit) -> str:
    """Return the reason why a model keeps none."""
    if fit.structured:
        return "the model keeps a structure, which a projection would end"
    if fit.model.prediction_window > 1:
        return "several states are new in each call; add --set prediction_window=1"
    return "the orbits show none, or the model errs more with them"


def _say_trial(fit: Fit) -> None:
    cli.say(f"  {fit.line}")


def _judge(model: Model, data: Dataset, path: Path) -> None:
    """Compare a step of the model with classical methods, here and in its file."""
    import vpintegrator as vp

    if data.system.is_measured or data.system.is_discrete or 0 in data.shapes.get("test", (0,)):
        return
    table = None
    with suppress(KeyboardInterrupt), cli.progress() as show:  # the model is written already
        show("comparison with classical methods", 0, 1)
        table = vp.one_step(model, data, seconds=VERDICT_SECONDS)
    if table is not None and table.methods:
        model.record = replace(model.record, one_step=table.values)
        vp.save(model, path, overwrite=True)
        for line in str(table).splitlines() if cli.is_set("verbose") else table.sentences:
            cli.say(f"  {line}")
        if model.provenance != "made from the equations":
            cli.say("  Classical methods know the equations.")


if __name__ == "__main__":
    main()
