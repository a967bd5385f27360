"""Generation of datasets in vp-gen: options, progress bar, interruptions, report."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vpintegrator.cli import importing
from vpintegrator.cli.common import (
    Options,
    parameter_option,
    progress_bar,
    read_fractions,
    tell,
    worker_options,
)
from vpintegrator.errors import InputError, printable
from vpintegrator.names import SOLVERS
from vpintegrator.runtime.interrupts import terminate_as_interrupt

if TYPE_CHECKING:
    from vpintegrator.data import Dataset, Recipe


class StepType(click.ParamType):
    """Type of a step option: a number, or a number of periods of the equations."""

    name = "step"

    def convert(self, value: Any, param: Any, ctx: Any) -> float | str:
        """Return the number, or the text ``period`` or ``2*period``."""
        if isinstance(value, str) and re.fullmatch(r"([1-9]\d{0,4}\*)?period", value.strip()):
            return value.strip()
        number: float = click.FLOAT.convert(value, param, ctx)
        return number


RECIPE_OPTIONS = Options(
    click.option(
        "--count",
        type=click.IntRange(min=3),
        help="Trajectories in all (train, validation and test together).",
    ),
    click.option("--steps", type=click.IntRange(min=1), help="Steps of each trajectory."),
    click.option(
        "--step",
        type=StepType(),
        metavar="FLOAT|period",
        help="Time between two states; period, or 2*period, for the map over so many periods of "
        "equations in time.",
    ),
    click.option(
        "--section",
        metavar="'NAME = VALUE'",
        help="The return map through a section, such as 'q[0] = 0', instead of the flow; of a "
        "Hamiltonian system at an energy (-p energy=0.1, or --vary energy=LOW:HIGH).",
    ),
    click.option(
        "--direction",
        type=click.Choice(["up", "down"]),
        help="Of crossings of the section.  [default: up]",
    ),
    click.option("--seed", type=click.IntRange(min=0), help="Seed of the random initial states."),
    parameter_option(),
    click.option(
        "--vary",
        multiple=True,
        metavar="NAME=LOW:HIGH[:log]",
        help="Give each trajectory a step or parameter of its own, uniform between two values, or "
        "its logarithm; repeat for several.",
    ),
    click.option(
        "--method",
        help=f"SciPy's solver: {', '.join(SOLVERS)}; or a classical method, such as "
        "implicit-midpoint, with the step of the states.",
    ),
    click.option("--rtol", type=float, help="Relative tolerance of every single trajectory."),
    click.option("--atol", type=float, help="Absolute tolerance, of the size of a component."),
    click.option(
        "--split",
        type=click.Choice(["trajectory", "time"]),
        help="Every trajectory in one group, or each cut in time.  [default: the recipe's]",
    ),
    click.option(
        "--fractions",
        metavar="A,B,C",
        help="Parts of train, validation and test, such as 0.7,0.15,0.15.",
    ),
)
RUN_OPTIONS = Options(
    worker_options(
        "Processes on this machine; the numbers do not depend on it.",
        "Scheduler of a dask cluster whose workers integrate, such as tcp://host:8786.",
        default=1,
        show_default=True,
    ),
    click.option(
        "--resume", is_flag=True, help="Keep what an interrupted run left in OUTPUT.shards."
    ),
    click.option(
        "--single-file/--no-single-file",
        default=None,
        help="Copy the shards of a large dataset to one file, or leave them beside a view of "
        "them.  [default: one file up to 1 GiB]",
    ),
)


def generate_dataset(
    source: str | None,
    output: Path | None,
    overwrite: bool,
    parameters: Mapping[str, Any],
    options: Mapping[str, Any],
    run: Mapping[str, Any],
) -> None:
    """Generate what ``source`` names, with what was given of the options, and report it."""
    for name in importing.OPTIONS.names:
        if name in options:
            raise InputError(f"--{name} is an option of --from")
    if source is None:
        raise InputError(
            "say what to generate: a dataset, a system or a file; vp-gen --list shows the catalogue"
        )
    from vpintegrator.cli.reporting import report_generated
    from vpintegrator.storage.files import check_output

    as_text = not source.endswith(".toml") and ("\n" in source or "=" in source)
    returns = "section" in options or isinstance(options.get("step"), str)
    name = "dataset" if as_text else Path(source.rpartition(":")[2]).stem
    path = output or Path(f"{name}-map.h5" if returns else f"{name}.h5")
    recipe = _recipe(source, parameters, options)
    check_output(path, overwrite or run["resume"])
    report_generated(_generate_with_progress(recipe, path, overwrite=overwrite, **run))


def _recipe(source: str, parameters: Mapping[str, Any], options: Mapping[str, Any]) -> Recipe:
    """Return the recipe asked for: of a flow, of its return map, or of a file."""
    from vpintegrator.catalogue import DATASETS, SYSTEMS, catalogue
    from vpintegrator.cli.own_code import is_reference, load_system_asked, system_of
    from vpintegrator.data import load_recipe
    from vpintegrator.dynamics import return_map

    recipe_options = _recipe_options(options)
    step, vary = recipe_options.get("step"), recipe_options.get("vary", {})
    _check_given(vary, parameters, step)
    plane = {name: recipe_options.pop(name, None) for name in ("section", "direction")}
    if plane["section"] is None and not isinstance(step, str):
        if plane["direction"] is not None:
            raise InputError("--direction is that of crossings of a --section")
        if is_reference(source):
            return load_recipe(system_of(source, parameters), **recipe_options)
        return load_recipe(source, parameters=parameters, **recipe_options)
    if "step" in recipe_options:
        del recipe_options["step"]
    given, crossings = dict(parameters), 1
    energy = given.pop("energy", None)
    if "energy" in vary:
        bounds = vary["energy"]
        energy = sum(bounds) / 2 if isinstance(bounds, list) else bounds["low"]
    if source in catalogue(DATASETS) and source not in catalogue(SYSTEMS):
        flow = load_recipe(source, parameters=given).system
    else:
        flow = load_system_asked(source, given)
    if isinstance(step, str):
        if plane["section"] is not None:
            raise InputError(f"--step {step} goes with equations in time; leave out --section")
        if flow.period is None:
            raise InputError(f"--step {step}: the equations of {flow.name} have no period in time")
        plane["section"] = f"{flow.time} = 0"
        crossings = int(step.partition("*")[0]) if "*" in step else 1
    elif step is not None and step != 1:
        raise InputError(f"--step {step:g}: a step of a return map is one return; leave it out")
    system = return_map(flow, **plane, energy=energy, crossings=crossings)
    return load_recipe(system, **recipe_options)


def read_ranges(entries: tuple[str, ...]) -> dict[str, Any]:
    """Parse ``("step=0.05:0.4", "k=1:10:log")`` to the table ``[vary]`` of a recipe."""
    table: dict[str, Any] = {}
    for entry in entries:
        name, _, text = (part.strip() for part in entry.partition("="))
        low, _, rest = text.partition(":")
        high, colon, log = rest.partition(":")
        try:
            bounds = [float(low), float(high)]
            if not name or (colon and log.strip() != "log"):
                raise ValueError
        except ValueError:
            raise InputError(
                f"--vary {entry}: expected NAME=LOW:HIGH, such as step=0.05:0.4, or with :log "
                "behind it for a uniform logarithm"
            ) from None
        if name in table:
            raise InputError(f"--vary {entry}: {name} varies already")
        table[name] = {"low": bounds[0], "high": bounds[1], "log": True} if log else bounds
    return table


def _check_given(table: Mapping[str, Any], parameters: Mapping[str, Any], step: Any) -> None:
    """Refuse a fixed value for a parameter, or for the step, that varies."""
    for name in table:
        if name in parameters or (name == "step" and step is not None):
            option = "--step" if name == "step" else f"-p {name}=..."
            raise InputError(f"--vary {name}=...: it varies, so leave {option} out")


def _recipe_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a recipe, grouped in its tables."""
    from vpintegrator.data.split import GROUPS

    options = dict(given)
    tables: dict[str, dict[str, Any]] = {"split": {}}
    tables["vary"] = read_ranges(options.pop("vary", ()))
    if "split" in options:
        tables["split"]["by"] = options.pop("split")
    if "fractions" in options:
        tables["split"] |= zip(GROUPS, read_fractions(options.pop("fractions")), strict=True)
    return options | {name: table for name, table in tables.items() if table}


def _generate_with_progress(recipe: Recipe, path: Path, **options: Any) -> Dataset:
    """Call :func:`vpintegrator.generate`, with a bar, and leave with 130 when interrupted."""
    from rich.progress import TextColumn

    from vpintegrator.data import generate

    before = terminate_as_interrupt()
    columns = TextColumn("{task.percentage:>3.0f}%"), TextColumn("{task.fields[rate]}")
    with progress_bar(*columns) as bar:
        task = bar.add_task(printable(recipe.system.name), total=None, rate="")

        def show(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)
            speed = (bar.tasks[0].speed or 0) / (recipe.steps + 1)
            rate = f"{speed:,.0f}" if speed > 10 else f"{speed:.2g}"
            bar.update(task, rate=f"{rate} trajectories/s" if speed else "")

        try:
            dataset = generate(recipe, path, progress=show, **options)
        except KeyboardInterrupt:
            bar.stop()
            _say_how_to_go_on(path)
            raise SystemExit(130) from None
        finally:
            signal.signal(signal.SIGTERM, before)  # files are consistent: the process may end
    return dataset


def _say_how_to_go_on(path: Path) -> None:
    from vpintegrator.data.view import folder_of

    folder = folder_of(path)
    kept = len(list(folder.glob("*.h5")))
    text = "interrupted; nothing was written"
    if folder.exists():
        text = (
            f"interrupted, nothing is lost: {folder} holds {kept} finished "
            f"shard{'' if kept == 1 else 's'}; the same command with --resume goes on"
        )
    tell(text)
