"""vp-rollout: let models and classical integrators run, and compare them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vpintegrator.cli.common import (
    SETTINGS,
    console,
    overwrite_option,
    parameter_option,
    plain_errors,
    progress_bar,
    read_parameters,
    version_option,
)
from vpintegrator.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    from vpintegrator.models import Integrator


@click.command(context_settings=SETTINGS)
@click.argument(
    "models", nargs=-1, type=click.Path(path_type=Path), metavar="[MODEL.safetensors]..."
)
@click.option(
    "--against",
    default="implicit-midpoint,rk4",
    show_default=True,
    metavar="NAME,...",
    help="Classical methods beside the models; 'none' for none.",
)
@click.option("--time", "time_", type=float, help="How long to run.  [default: 120]")
@click.option(
    "--steps", type=click.IntRange(min=1), help="How many steps to run, instead of --time."
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
    help="Start from the test trajectories of a dataset.",
)
@click.option(
    "--system", metavar="SYSTEM|FILE.toml", help="Without a model: the system to integrate."
)
@click.option("--step", type=float, help="Without a model: the step.  [default: the system's]")
@parameter_option
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Of random initial states.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="HDF5 file to write.  [default: SYSTEM-rollout.h5]",
)
@overwrite_option
@click.option(
    "--list-methods", is_flag=True, help="List the classical methods, with order and structure."
)
@version_option
@plain_errors
def main(
    models: tuple[Path, ...],
    against: str,
    time_: float | None,
    steps: int | None,
    trajectories: int | None,
    initial: tuple[str, ...],
    dataset: Path | None,
    system: str | None,
    step: float | None,
    parameters: tuple[str, ...],
    seed: int,
    output: Path | None,
    overwrite: bool,
    list_methods: bool,
) -> None:
    """Let trained models and classical integrators run side by side, and compare them.

    All start from the same states and take the same step. Each is compared with an accurate
    solution; the table shows the error, the drift of the invariants, the volume error and the time
    a step takes. Everything is written to a rollout file for vp-plot.

    \b
    Examples:
      vp-rollout vpt.safetensors --against implicit-midpoint,rk4 --time 120
      vp-rollout a.safetensors b.safetensors --initial 0,0.6,0.8 -o comparison.h5
      vp-rollout --system pendulum --against stoermer-verlet,rk4 --steps 1000
    """
    if list_methods:
        _list_methods()
        return
    if not models and system is None:
        raise InputError("name a trained model, or a system with --system")
    if models and (system is not None or step is not None or parameters):
        raise InputError("--system, --step and --parameter go without a model: it holds its own")
    if time_ is not None and steps is not None:
        raise InputError("give --time or --steps, not both")
    if sum(bool(given) for given in (initial, dataset, trajectories)) > 1 and (
        initial or not dataset
    ):
        raise InputError("give initial states by one of --initial, --dataset and --trajectories")
    from vpintegrator.files import check_output

    if output is not None:
        check_output(output, overwrite)
    from vpintegrator.dynamics import load_system
    from vpintegrator.models import load
    from vpintegrator.plotting.tables import terminal_table
    from vpintegrator.rollout import compare

    loaded = {path.stem: load(path) for path in models}
    if len(loaded) < len(models):
        raise InputError("two of the model files have the same name; rename one")
    given = None if system is None else load_system(system, **read_parameters(parameters))
    name = given.name if given else next(iter(loaded.values())).metadata.get("system_name", "model")
    path = output or Path(f"{name}-rollout.h5")
    check_output(path, overwrite)
    with progress_bar() as bar:
        tasks: dict[str, Any] = {}

        def show(method: str, done: int, total: int) -> None:
            if method not in tasks:
                tasks[method] = bar.add_task(method, total=total)
            bar.update(tasks[method], completed=done, total=total)

        report = compare(
            loaded or None,
            against=[m.strip() for m in against.split(",") if m.strip() not in ("", "none")],
            initial=_initial(initial, dataset, trajectories, loaded),
            trajectories=trajectories or 8,
            time=120.0 if time_ is None and steps is None else time_,
            steps=steps,
            seed=seed,
            system=given,
            step=step,
            progress=show,
        )
    report.save(path, overwrite=overwrite)
    out = console()
    out.print(terminal_table(report))
    out.print(f"written to {path}; draw it with: vp-plot {path}", soft_wrap=True)


def _initial(
    states: tuple[str, ...],
    dataset: Path | None,
    trajectories: int | None,
    models: dict[str, Integrator],
) -> np.ndarray | None:
    """Initial states (trajectory, dim) as the user gave them, or None for random ones."""
    import numpy as np

    if states:
        try:
            rows = [[float(x) for x in state.split(",")] for state in states]
        except ValueError:
            raise InputError(
                f"--initial {' '.join(states)}: expected numbers as in 0,0.6,0.8"
            ) from None
        if len({len(row) for row in rows}) > 1:
            raise InputError(f"--initial {' '.join(states)}: the states differ in length")
        return np.array(rows)
    if dataset is None:
        return None
    from vpintegrator.data import open_dataset

    data = open_dataset(dataset)
    for name, model in models.items():
        if model.dim != data.dim:
            raise InputError(
                f"{name} is for states of {model.dim} components, but {dataset} holds states of "
                f"{data.dim}"
            )
    return data.states("test")[: trajectories or 8, 0]


def _list_methods() -> None:
    from rich.table import Column, Table

    from vpintegrator.rollout import METHODS

    table = Table(Column("method", no_wrap=True), "order", "structure", "source", box=None)
    for name, method in METHODS.items():
        traits = ("symplectic", "volume_preserving", "symmetric")
        structure = ", ".join(t.replace("_", "-") for t in traits if getattr(method, t))
        table.add_row(name, str(method.order), structure or "none", method.source)
    console().print(table)


if __name__ == "__main__":
    main()
