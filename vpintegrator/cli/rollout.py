"""vp-rollout: let models and classical integrators run, and compare them."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from vpintegrator.cli.common import (
    SETTINGS,
    compiled_option,
    console,
    overwrite_option,
    parameter_option,
    plain_errors,
    progress_bar,
    read_parameters,
    version_option,
)
from vpintegrator.cli.output import output_options, width_of, write_json
from vpintegrator.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    from vpintegrator.dynamics import System
    from vpintegrator.models import Integrator

_TIME = 120.0  # how long to run where nothing says it


@click.command(context_settings=SETTINGS)
@click.argument(
    "models", nargs=-1, type=click.Path(path_type=Path), metavar="[MODEL.safetensors]..."
)
@click.option(
    "--against",
    metavar="NAME,...",
    help="Classical methods beside the models; 'all' for all that apply, 'none' for none.  "
    "[default: implicit-midpoint,rk4; none where the equations are not known]",
)
@click.option(
    "--time", "time_", type=float, help="How long to run.  [default: 120, or as the data]"
)
@click.option(
    "--steps", type=click.IntRange(min=1), help="How many steps to run, instead of --time."
)
@click.option(
    "--every",
    type=click.IntRange(min=1),
    help="Keep every Nth state; all are measured.  [default: at most 10,000 times are kept]",
)
@click.option(
    "--trajectories", type=click.IntRange(min=1), help="Random initial states.  [default: 8]"
)
@click.option(
    "--initial", multiple=True, metavar="Z1,Z2,...", help="An initial state; repeat for several."
)
@click.option(
    "--dataset",
    type=click.Path(path_type=Path),
    help="Start from the test trajectories of a dataset.  [default for measured data: that of the "
    "training]",
)
@click.option(
    "--reference",
    type=click.Choice(["solution", "dataset"]),
    help="What errors are measured against: an accurate solution, or the trajectories of the "
    "dataset.  [default: a solution where the equations are known]",
)
@click.option(
    "--first-window",
    default="reference",
    show_default=True,
    metavar="METHOD",
    help="What makes the first states of models that read several: the reference, or a method.",
)
@click.option(
    "--reference-time",
    type=float,
    metavar="TIME",
    help="End of the accurate reference, and of trajectory errors.  [default: 10,000 steps]",
)
@click.option(
    "--threshold",
    type=float,
    help="Error that counts as failure.  [default: a tenth of the reference's spread]",
)
@click.option(
    "--section",
    default="auto",
    metavar="COMPONENT=VALUE",
    help="Poincare section, such as q[0]=0, or -q[0]=0 for downward crossings; 'none' for none.  "
    "[default: the system file's; q[0]=0 for Hamiltonian systems of two degrees of freedom]",
)
@click.option(
    "--tangent-steps",
    type=click.IntRange(min=0),
    default=200,
    show_default=True,
    help="Steps over which phase-space volume and Lyapunov exponents are followed.",
)
@click.option(
    "--work-precision", is_flag=True, help="Also run each method at several steps: error by cost."
)
@click.option(
    "--system",
    metavar="SYSTEM|FILE.toml",
    help="The system to integrate.  [default: the one that the models hold]",
)
@click.option(
    "--step",
    type=float,
    help="Time step.  [default: the one that the models hold, or the system's]",
)
@parameter_option
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Of random initial states.",
)
@compiled_option(
    "Run models as machine code, ten to hundreds of times faster; auto wherever possible."
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="HDF5 file to write.  [default: SYSTEM-rollout.h5]",
)
@overwrite_option
@click.option(
    "--resume",
    is_flag=True,
    help="Go on from OUTPUT.checkpoint, which an interrupted run leaves; begin anew if there is "
    "none.",
)
@click.option(
    "--list-methods",
    is_flag=True,
    help="List the classical methods, with order and structure; with --system, those that apply.",
)
@output_options
@version_option
@plain_errors
def main(
    models: tuple[Path, ...],
    against: str | None,
    time_: float | None,
    steps: int | None,
    trajectories: int | None,
    initial: tuple[str, ...],
    dataset: Path | None,
    reference: str | None,
    system: str | None,
    step: float | None,
    parameters: tuple[str, ...],
    output: Path | None,
    overwrite: bool,
    resume: bool,
    list_methods: bool,
    compiled: bool | None,
    **options: Any,
) -> None:
    """Let trained models and classical integrators run side by side, and compare them.

    All start from the same states and take the same step. Each is compared with an accurate
    solution, or, where the equations are not known, with the measured trajectories; the table shows
    the error, the drift of the invariants, the volume error and the time a step takes. Everything
    is written to a rollout file for vp-plot.

    A rollout may take millions of steps: each is measured, some are kept. Ctrl-C keeps what is done
    in OUTPUT.checkpoint, and --resume goes on from there; it is deleted when the rollout is saved,
    and by nothing else.

    \b
    Examples:
      vp-rollout vpt.safetensors --against implicit-midpoint,rk4 --time 120
      vp-rollout a.safetensors b.safetensors --initial 0,0.6,0.8 -o comparison.h5
      vp-rollout --system pendulum --against all --steps 1000000 --work-precision
    """
    given = None if system is None else _load_system(system, parameters)
    if list_methods:
        _list_methods(given)
        return
    if not models and given is None:
        raise InputError("name a trained model, or a system with --system")
    if parameters and given is None:
        raise InputError("--parameter sets a parameter of the system that --system names")
    if time_ is not None and steps is not None:
        raise InputError("give --time or --steps, not both")
    if sum(bool(given) for given in (initial, dataset, trajectories)) > 1 and (
        initial or not dataset
    ):
        raise InputError("give initial states by one of --initial, --dataset and --trajectories")
    from vpintegrator.files import check_output, safe_name

    if output is not None:
        check_output(output, overwrite)
    from vpintegrator.cli.results import rollout_results
    from vpintegrator.plotting.names import grouped
    from vpintegrator.plotting.tables import terminal_table
    from vpintegrator.rollout import compare
    from vpintegrator.rollout.arguments import check_agreement
    from vpintegrator.rollout.compare import TRAJECTORIES
    from vpintegrator.rollout.recording import is_recorded

    loaded: dict[str, Integrator] = {}
    if models:  # nothing else needs PyTorch, which takes seconds to import
        from vpintegrator.models import load

        loaded = {path.stem: load(path) for path in models}
    if len(loaded) < len(models):
        raise InputError("two of the model files have the same name; rename one")
    if given is not None:
        check_agreement(loaded, given)
    name = given.name if given else next(iter(loaded.values())).metadata.get("system_name", "model")
    path = output or Path(f"{safe_name(name, 'model')}-rollout.h5")
    check_output(path, overwrite)
    first, measured = _start(initial, dataset, reference, trajectories, loaded, given)
    if time_ is None and steps is None and measured is None:
        time_ = _TIME
    checkpoint = path.with_name(f"{path.name}.checkpoint")
    note = ""
    if resume and not is_recorded(checkpoint):
        note = f"nothing is recorded in {checkpoint} yet: the rollout begins anew"
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with _bars(note) as show:
            report = compare(
                loaded or None,
                against=_methods(against),
                initial=first,
                reference=measured,
                trajectories=trajectories or TRAJECTORIES,
                time=time_,
                steps=steps,
                system=given,
                step=step,
                checkpoint=checkpoint,
                resume=resume,
                compiled=compiled,
                progress=show,
                **options,
            )
        report.save(path, overwrite=overwrite)
        report.discard_checkpoint()
    except KeyboardInterrupt:
        console().print("interrupted, nothing is lost: the same command with --resume goes on")
        raise SystemExit(130) from None
    out = console()
    out.print(terminal_table(report, width_of(out)))
    if report.every > 1:
        out.print(f"every step is measured; one state in {report.every:,} is kept")
    if 0 < report.reference_time < report.times[-1]:
        out.print(
            f"errors of trajectories are those up to t = {grouped(report.reference_time)}, where "
            "the reference ends (--reference-time)",
            soft_wrap=True,
        )
    if report.system.is_measured:
        out.print(
            f"the equations of {report.system.name} are not known; left out: an accurate solution, "
            "classical methods, and the phase-space volume of models that read several states",
            soft_wrap=True,
        )
    elif "all" in (_methods(against) or ()):
        _say_what_is_left_out(report.system)
    out.print(f"written to {path}; draw it with: vp-plot {path}", soft_wrap=True)
    write_json(lambda: {"output": path, **rollout_results(report)})


def _load_system(name: str, parameters: tuple[str, ...]) -> System:
    from vpintegrator.dynamics import load_system

    return load_system(name, **read_parameters(parameters))


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@contextmanager
def _bars(note: str) -> Iterator[Callable[[str, int, int], None]]:
    """A progress bar for each method as it begins; a note when the first does."""
    with progress_bar() as bar:
        tasks: dict[str, Any] = {}

        def show(method: str, done: int, total: int) -> None:
            if note and not tasks:
                console().print(note, soft_wrap=True)
            if method not in tasks:
                tasks[method] = bar.add_task(method, total=total)
            bar.update(tasks[method], completed=done, total=total)

        yield show


def _methods(against: str | None) -> list[str] | None:
    """Names of classical methods as the user gave them, or None for the usual ones."""
    if against is None:
        return None
    return [m.strip() for m in against.split(",") if m.strip() not in ("", "none")]


def _start(
    states: tuple[str, ...],
    dataset: Path | None,
    reference: str | None,
    trajectories: int | None,
    models: dict[str, Integrator],
    system: System | None,
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Initial states (trajectory, dim), or states (trajectory, time, dim) to compare with too.

    Both are None for random initial states.
    """
    import numpy as np

    if reference == "dataset" and states:
        raise InputError("--reference dataset starts from the dataset; leave out --initial")
    if states:
        try:
            rows = [[float(x) for x in state.split(",")] for state in states]
        except ValueError:
            raise InputError(
                f"--initial {' '.join(states)}: expected numbers as in 0,0.6,0.8"
            ) from None
        if len({len(row) for row in rows}) > 1:
            raise InputError(f"--initial {' '.join(states)}: the states differ in length")
        return np.array(rows), None
    from vpintegrator.data import open_dataset
    from vpintegrator.rollout.arguments import find_system
    from vpintegrator.rollout.compare import TRAJECTORIES
    from vpintegrator.rollout.flow import trained_step

    measured = find_system(models, system).is_measured
    if reference == "solution" and measured:
        find_system(models, system).require_equations("--reference solution")
    from_dataset = measured or reference == "dataset"
    if dataset is None and from_dataset:
        dataset = _recorded_dataset(models)
    if dataset is None:
        return None, None
    data = open_dataset(dataset)
    for name, model in models.items():
        if model.dim != data.dim:
            raise InputError(
                f"{name} is for states of {model.dim} components, but {dataset} holds states of "
                f"{data.dim}"
            )
    if not data.shapes.get("test", (0,))[0]:
        raise InputError(f"{dataset} has no test trajectories to start from")
    if from_dataset:
        for name, model in models.items():
            step = trained_step(model, name) or data.step
            if not math.isclose(step, data.step, rel_tol=1e-12):
                raise InputError(
                    f"{name} was trained for the step {step:g}, but that of {dataset} is "
                    f"{data.step:g}; a learned map has one step"
                )
        return None, data.states("test", slice(trajectories or TRAJECTORIES))
    initial = data.states("test", slice(None), 0)
    known = initial[np.isfinite(initial).all(axis=1)]
    if not len(known):
        raise InputError(f"{dataset}: no test trajectory has an observed initial state")
    return known[: trajectories or TRAJECTORIES], None


def _recorded_dataset(models: dict[str, Integrator]) -> Path:
    """The dataset that a model was trained on, if it is still where it was."""
    from vpintegrator.data import open_dataset

    for name, model in models.items():
        recorded = model.metadata.get("dataset")
        # the model may be a stranger's: no device or pipe, which never ends, and no other machine,
        # which would be told who asks; and what is read is said
        network = recorded is not None and recorded.startswith(("//", r"\\"))
        if recorded is None or network or not os.path.isfile(recorded):
            at = "" if recorded is None else f" at {recorded}"
            raise InputError(
                f"the dataset that {name} was trained on is not found{at}; give it, or another of "
                "the same kind, with --dataset"
            )
        if open_dataset(recorded).fingerprint != model.metadata.get("dataset_fingerprint"):
            raise InputError(
                f"{recorded} has changed since {name} was trained on it; if that is meant, give it "
                "with --dataset"
            )
        console().print(f"compared with {recorded}, which {name} was trained on", soft_wrap=True)
        return Path(recorded)
    raise InputError("without a model, give the dataset to compare with by --dataset")


def _list_methods(system: System | None) -> None:
    """All methods, or those that apply to a system and why the others do not."""
    from rich.table import Column, Table

    from vpintegrator.rollout import METHODS, applicable_methods

    traits = ("symplectic", "volume_preserving", "symmetric")
    methods = METHODS if system is None else applicable_methods(system)[0]
    table = Table(Column("method", no_wrap=True), "order", "structure", "source", box=None)
    for name, method in methods.items():
        if system is None:
            kept = tuple(t.replace("_", "-") for t in traits if getattr(method, t))
        else:
            kept = method.structure(system)
        table.add_row(name, str(method.order), ", ".join(kept) or "none", method.source)
    console().print(table)
    write_json(
        lambda: {
            "methods": {
                name: {"order": method.order, "source": method.source}
                for name, method in methods.items()
            }
        }
    )
    if system is not None:
        _say_what_is_left_out(system)


def _say_what_is_left_out(system: System) -> None:
    from vpintegrator.rollout import applicable_methods

    for reason in applicable_methods(system)[1].values():
        console().print(f"left out: {reason}", soft_wrap=True)


if __name__ == "__main__":
    main()
