"""vp-gen: trajectories of a system, written to a dataset."""

from __future__ import annotations

import re
import signal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vpintegrator.cli import command as cli
from vpintegrator.cli.report import report
from vpintegrator.errors import InputError

if TYPE_CHECKING:
    from vpintegrator.dynamics import System

Table = dict[str, Any]


@cli.command
@click.argument("system", required=False, metavar="SYSTEM")
@cli.group(
    "What",
    parameter=cli.PARAMETERS,
    vary=cli.many("NAME=LOW:HIGH", "A parameter or the step differs between trajectories (:log)."),
    observe=cli.text("NAME,...", "Components or functions of the state that are observed."),
    hide=cli.text("NAME,...", "What varies but is not told."),
    noise=cli.number("PART", "Gaussian noise, relative to the spread."),
    section=cli.text(
        "'NAME = VALUE'", "Return map through a section: 'q = 0'; '-q = 0' downwards."
    ),
)
@cli.group(
    "How much",
    count=cli.whole(3, "Trajectories for training, validation and test. [the recipe's]"),
    steps=cli.whole(1, "Steps of each trajectory. [the recipe's]"),
    step=cli.text("TIME", "Time between two states; 'period' of the forcing. [the recipe's]"),
    method=cli.text("NAME", "Solver of SciPy, or a classical method. [DOP853]"),
    rtol=cli.number("TOL", "Relative tolerance of the solver. [1e-12]"),
    split=cli.choice(
        "HOW", ["trajectory", "time"], "Groups of trajectories or of times. [trajectory]"
    ),
    seed=cli.whole(0, "Seed of the random initial states. [the recipe's]"),
    workers=cli.whole(1, "Processes on this machine. [1]", default=1),
    scheduler=cli.text("ADDRESS", "Scheduler of a dask cluster."),
    resume=cli.flag("Go on with an interrupted run."),
)
@cli.output_group("Dataset to write. [SYSTEM.h5]", "Print ranges, drifts and versions, too.")
def main(
    system: str | None,
    parameter: tuple[str, ...],
    vary: tuple[str, ...],
    observe: str | None,
    hide: str | None,
    noise: float | None,
    section: str | None,
    step: str | None,
    split: str | None,
    output: Path | None,
    overwrite: bool,
    resume: bool,
    workers: int,
    scheduler: str | None,
    **options: Any,
) -> None:
    """Generate trajectories of a system and write them to a dataset (HDF5).

    SYSTEM is a system or a recipe of the catalogue (vp-show systems, vp-show recipes), a TOML file
    of your own, or MODULE:NAME, a System in your Python code.

    \b
    Examples:
      vp-gen rigid-body
      vp-gen pendulum --count 500 --step 0.1 -p g=9.81
      vp-gen rigid-body --vary step=0.05:0.4 --vary I1=1.5:2.5
      vp-gen henon-heiles --observe q1,q2 --noise 1e-4
      vp-gen henon-heiles --section "q[0] = 0" -p energy=0.1
      vp-gen forced-duffing --step period
    """
    if system is None:
        raise InputError("name a system, such as rigid-body; vp-show systems lists them")
    from vpintegrator.data import generate
    from vpintegrator.data.observation import split_list
    from vpintegrator.runtime.interrupts import terminate_as_interrupt

    values = cli.read_parameters(parameter)
    ranges = read_ranges(vary)
    time = _read_step(step)
    for name in ranges:
        if name in values or (name == "step" and step is not None):
            fixed = "--step" if name == "step" else f"-p {name}=..."
            raise InputError(f"--vary {name}=...: leave {fixed} out")
    source, values, time = _source(system, values, ranges, section, time)
    options = cli.given(**options, step=time, split=split and {"by": split})
    options |= {"parameters": values} if values else {}
    options |= {"vary": ranges} if ranges else {}
    texts = {"components": observe, "hide": hide}
    table: Table = {key: split_list(text) for key, text in texts.items() if text is not None}
    table |= {} if noise is None else {"noise": noise}
    options |= {"observe": table} if table else {}
    as_text = not system.endswith(".toml") and ("\n" in system or "=" in system)
    name = "dataset" if as_text else Path(system.rpartition(":")[2]).stem
    is_map = section is not None or (step is not None and "period" in step)
    path = output or Path(f"{name}-map.h5" if is_map else f"{name}.h5")
    before = terminate_as_interrupt()
    with cli.progress() as show:
        try:
            dataset = generate(
                source,
                path,
                overwrite=overwrite,
                resume=resume,
                workers=workers,
                scheduler=scheduler,
                progress=partial(show, name),
                **options,
            )
        except KeyboardInterrupt:
            shards = path.with_name(f"{path.name}.shards")
            kept = (
                "the same command with --resume goes on" if shards.exists() else "nothing is left"
            )
            click.echo(f"interrupted; {kept}", err=True)
            raise SystemExit(130) from None
        finally:
            signal.signal(signal.SIGTERM, before)  # files are consistent: the process may end
    report(dataset)


def _read_step(text: str | None) -> float | str | None:
    """Return a time, or a number of periods as ``period`` or ``2*period``."""
    if text is None or re.fullmatch(r"([1-9]\d{0,4}\*)?period", text):
        return text
    try:
        return float(text)
    except ValueError:
        raise InputError(f"--step {text}: expected a time, such as 0.1, or period") from None


def read_ranges(entries: tuple[str, ...]) -> Table:
    """Parse ``("step=0.05:0.4", "k=1:10:log")`` to the table ``[vary]`` of a recipe."""
    table: Table = {}
    for entry in entries:
        match = re.fullmatch(r"\s*([^=\s]+)\s*=([^:]+):([^:]+?)(:\s*log\s*)?", entry)
        try:
            bounds = [float(match[2]), float(match[3])] if match else []
        except ValueError:
            bounds = []
        if match is None or not bounds or match[1] in table:
            raise InputError(f"--vary {entry}: expected NAME=LOW:HIGH once, as step=0.05:0.4")
        table[match[1]] = {"low": bounds[0], "high": bounds[1], "log": True} if match[4] else bounds
    return table


def _source(
    system: str, parameters: Table, ranges: Table, section: str | None, step: float | str | None
) -> tuple[str | System, Table, float | None]:
    """Return what to generate, the parameters and the step that are left to set."""
    from vpintegrator.cli.own_code import is_reference, load_system
    from vpintegrator.data import load_recipe
    from vpintegrator.dynamics import return_map

    if section is None and not isinstance(step, str):
        if is_reference(system):
            return load_system(system, parameters), {}, step
        return system, parameters, step
    energy = parameters.pop("energy", None)
    if (range_ := ranges.get("energy")) is not None:
        energy = sum(range_) / 2 if isinstance(range_, list) else range_["low"]
    flow = load_system(system, parameters) if is_reference(system) else None
    flow = flow or load_recipe(system, parameters=parameters, step=1.0).system
    if section is not None:
        if step not in (None, 1.0):
            raise InputError(f"--step {step}: a step of a return map is one return; leave it out")
        sign, place = re.fullmatch(r"\s*(-?)(.*)", section, re.DOTALL).groups()  # type: ignore[union-attr]
        direction = "down" if sign else None
        return return_map(flow, place, energy=energy, direction=direction), {}, None
    if flow.period is None:
        raise InputError(f"--step {step}: the equations of {flow.name} have no period in time")
    periods = int(str(step).partition("*")[0]) if "*" in str(step) else 1
    return return_map(flow, f"{flow.time} = 0", energy=energy, crossings=periods), {}, None


if __name__ == "__main__":
    main()
