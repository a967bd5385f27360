"""vp-rollout: models and classical methods side by side, over long times."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vpintegrator.cli import command as cli
from vpintegrator.cli.model_files import at_parameters, files_and_methods, load_files
from vpintegrator.errors import InputError

if TYPE_CHECKING:
    from vpintegrator.models import Model
    from vpintegrator.rollout import Report


@cli.command
@click.argument("models", nargs=-1, metavar="[MODEL|NAME=FILES|METHOD]...")
@cli.group(
    "What",
    against=cli.text("NAME,...", "Classical methods, all or none. [implicit-midpoint,rk4]"),
    system=cli.text("SYSTEM", "System to integrate. [that of the models]"),
    parameter=cli.PARAMETERS,
    dataset=cli.text("FILE", "Start from the test trajectories of a dataset."),
    initial=cli.many("Z1,Z2,...", "An initial state; repeat for several."),
    reference=cli.choice("WHAT", ["solution", "dataset"], "Errors are relative to it. [solution]"),
    section=cli.text("'NAME = VALUE'", "Poincare section: 'q = 0', '-q = 0', none. [the system's]"),
    work_precision=cli.flag("Also measure error and cost at several steps."),
)
@cli.group(
    "How much",
    time=cli.number("TIME", "Length. [the system's, or 500 steps]"),
    steps=cli.whole(1, "Length in steps, instead of --time."),
    step=cli.number("TIME", "Time step. [that of the models]"),
    trajectories=cli.whole(1, "Random initial states. [8]"),
    reference_time=cli.number("TIME", "End of the accurate solution. [10,000 steps]"),
    seed=cli.whole(0, "Seed of the random initial states. [0]"),
    device=cli.text("DEVICE", "Where models run: cpu, cuda, cuda:N or mps. [cpu]", default="cpu"),
)
@cli.output_group(
    "Rollout to write. [SYSTEM-rollout.h5]", "Print what the numbers of the table mean, too."
)
def main(
    models: tuple[str, ...],
    against: str | None,
    system: str | None,
    parameter: tuple[str, ...],
    initial: tuple[str, ...],
    device: str,
    output: Path | None,
    overwrite: bool,
    **values: Any,
) -> None:
    """Compare models with classical methods and an accurate solution, over long times.

    All start from the same states, with the same step. The table has the errors, the drift of the
    invariants, the change of volume and the cost of a step. Several files under one NAME, such as
    trainings with several seeds, are one row. METHOD is one of vp-show methods.

    \b
    Examples:
      vp-rollout rigid-body.safetensors --time 120
      vp-rollout a.safetensors b.safetensors --initial 0,0.6,0.8
      vp-rollout VPT=vpt-*.safetensors RK4 --against none
      vp-rollout family.safetensors --step 0.1 -p I1=2.2
      vp-rollout --system pendulum --against all --steps 100000
    """
    from vpintegrator.cli.own_code import load_system
    from vpintegrator.rollout import compare
    from vpintegrator.rollout.start import check_agreement, find_system, single_models
    from vpintegrator.runtime.interrupts import terminate_as_interrupt
    from vpintegrator.storage.files import safe_name

    options = cli.given(**values)
    parameters = cli.read_parameters(parameter)
    if initial:
        options["initial"] = _states(initial)
    files, methods = files_and_methods(models)
    against_ = cli.names(against)
    if methods or against_ is not None:
        options["against"] = methods + [name for name in against_ or [] if name != "none"]
    if not files and system is None:
        raise InputError("name a trained model, or a system with --system")
    declared = None if system is None else load_system(system, parameters)
    loaded = at_parameters(load_files(files, device), options.get("step"), parameters, declared)
    single = single_models(loaded)[0]
    if declared is not None:
        check_agreement(single, declared)
    options["system"] = find_system(single, declared)
    name = safe_name(options["system"].name, "model")
    path = output or Path(f"{name}-rollout.h5")
    options |= _measured(single, options)
    cli.check_outputs([path], overwrite, lambda: _check(loaded, options))
    terminate_as_interrupt()
    with cli.progress() as show:
        report = compare(loaded or None, progress=show, **options)
    report.save(path, overwrite=overwrite)
    _print(report, path)


class _Begun(Exception):
    """The arguments of a comparison are right: its work begins."""


def _check(models: dict[str, Any], options: dict[str, Any]) -> None:
    """Raise InputError for arguments that a comparison refuses, without its work."""
    from vpintegrator.rollout import compare

    def begin(*_: Any) -> None:
        raise _Begun

    with suppress(_Begun):  # progress is told when all arguments have been looked at
        compare(models or None, progress=begin, **options)


def _print(report: Report, path: Path) -> None:
    """Print the table, the end of the reference and the file."""
    from vpintegrator.overview import report_facts, report_text
    from vpintegrator.plotting.tables import cost_sentences
    from vpintegrator.plotting.text import grouped

    cli.say(report_text(report, cli.line_width(), notes=cli.is_set("verbose")))
    for sentence in [] if cli.is_set("verbose") else cost_sentences(report):
        cli.say(sentence)
    first = report.reference_ends.min()
    last = report.reference_ends.max()
    if 0 < first < report.times[-1]:
        times = grouped(last) if first == last else f"{grouped(first)} to {grouped(last)}"
        cli.say(f"errors are those up to t = {times}, where the accurate solution ends")
    cli.say(f"written to {path}; draw it with: vp-plot {path}")
    cli.write_json(lambda: {"output": path, **report_facts(report)})


def _measured(models: dict[str, Model], options: dict[str, Any]) -> dict[str, Any]:
    """Return the dataset that measured trajectories are compared with, and say which it is."""
    from vpintegrator.rollout.start import as_dataset, recorded_dataset

    reference = options.get("reference")
    is_measured = options["system"].is_measured
    if "initial" in options or not (is_measured or reference == "dataset"):
        return {}
    path = options.get("dataset") or recorded_dataset(models)
    is_solved = is_measured and as_dataset(path).complete_system is not None
    if reference is None:
        reference = "solution" if is_solved else "dataset"
    if "dataset" not in options:
        # the user must learn that a model from elsewhere makes the command read a file
        what = "the solution from complete states in " if reference == "solution" else ""
        cli.say(f"compared with {what}{path}, which {next(iter(models))} was trained on")
    return {"reference": reference, "dataset": path}


def _states(texts: tuple[str, ...]) -> list[list[float]]:
    try:
        rows = [[float(x) for x in text.split(",")] for text in texts]
    except ValueError:
        rows = [[], [0.0]]
    if len({len(row) for row in rows}) > 1:
        raise InputError(f"--initial {' '.join(texts)}: expected states as 0,0.6,0.8")
    return rows


if __name__ == "__main__":
    main()
