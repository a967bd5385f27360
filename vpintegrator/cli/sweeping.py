"""Families in vp-rollout: one or several steps and values of the parameters."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vpintegrator.cli.common import console, progress_bar, read_numbers, tell
from vpintegrator.cli.output import width_of, write_json
from vpintegrator.errors import InputError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from vpintegrator.dynamics import System
    from vpintegrator.models import Integrator
    from vpintegrator.rollout import ParameterSweep

_OF_SWEEPS = {"time", "trajectories", "seed", "compiled"}
_USUAL = {"section": "auto", "tangent_steps": 200}


def refuse_others(options: Mapping[str, Any], allowed: Collection[str], reason: str) -> None:
    """Refuse options of comparisons alone that were given, and say why."""
    left_out = [n for n, v in options.items() if n not in allowed and v != _USUAL.get(n, False)]
    if left_out:
        flags = ", ".join("--" + name.replace("_", "-") for name in left_out)
        raise InputError(f"{flags}: {reason}")


def read_steps(text: str | None) -> list[float]:
    """Parse the steps of ``--step``, separated by commas."""
    return [] if text is None else read_numbers(text, "step")


def conditions_asked(
    models: Mapping[str, Integrator], steps: list[float], parameters: Mapping[str, Any]
) -> dict[str, list[float]]:
    """Return the values of each parameter of the families among the models.

    Returns
    -------
    dict
        Empty where none is a family.

    Raises
    ------
    InputError
        If a value is no number, or several are asked for of models that are no families.
    """
    varied = [name for model in models.values() for name in model.conditions]
    if not varied:
        if len(steps) > 1:
            raise InputError("several steps are for families; these models have one step each")
        return {}
    if "step" in varied and not steps:
        low, high = next(m.conditions["step"] for m in models.values() if "step" in m.conditions)
        raise InputError(f"this family takes any step from {low:g} to {high:g}: name it by --step")
    asked: dict[str, list[float]] = {"step": steps} if "step" in varied else {}
    for name, given in parameters.items():
        values = given if isinstance(given, list) else [given]
        if not all(isinstance(value, int | float) for value in values):
            raise InputError(f"-p {name}={given}: expected a number, or several with commas")
        asked[name] = [float(value) for value in values]
    return asked


def singled(
    models: Mapping[str, Integrator], asked: Mapping[str, list[float]], system: System | None
) -> dict[str, Integrator]:
    """Return the models at one step and one set of parameters, those asked or of the system."""
    single = {name: values[0] for name, values in asked.items()}
    own = {} if system is None else system.parameters
    return {
        name: model.at(**{n: own[n] for n in model.conditions if n in own}, **single)
        if model.conditions
        else model
        for name, model in models.items()
    }


def run_sweep(
    models: Mapping[str, Integrator],
    asked: Mapping[str, list[float]],
    against: list[str] | None,
    output: Path | None,
    overwrite: bool,
    options: Mapping[str, Any],
) -> None:
    """Compare a family with classical methods at all combinations of conditions, and say it."""
    from vpintegrator.rollout.parameter_sweep import check_sweep, parameter_sweep
    from vpintegrator.runtime.interrupts import terminate_as_interrupt
    from vpintegrator.storage.files import check_output_last, safe_name

    if len(models) > 1:
        raise InputError("several values of a condition are for one family at a time")
    refuse_others(
        options, _OF_SWEEPS, "not for several values of a condition; ask for one at a time"
    )
    ((name, model),) = models.items()
    path = output or Path(f"{safe_name(model.metadata.get('system_name', name))}-sweep.h5")
    given = {n: options[n] for n in _OF_SWEEPS if n in options}
    start = {n: value for n, value in given.items() if n != "compiled"}
    check_output_last(path, overwrite, lambda: check_sweep(model, against, asked, **start))
    terminate_as_interrupt()
    with progress_bar() as bar:
        task = bar.add_task("parameters", total=None)

        def show(words: str, done: int, total: int) -> None:
            bar.update(task, description=words or "parameters", completed=done, total=total)

        found = parameter_sweep(model, against, parameters=asked, progress=show, **given)
    found.save(path, overwrite)
    out = console()
    out.print(sweep_table(found, width_of(out)))
    tell(f"written to {path}; draw it with: vp-plot {path}")
    write_json(lambda: {"output": path, "time": found.time, "table": found.table()})


def sweep_table(sweep: ParameterSweep, width: int | None) -> RenderableType:
    """Return a table with a row for each combination of parameters: the error by method."""
    from rich.table import Column, Table

    headers = [f"{title}\nRMSE" for title in sweep.methods.values()]
    table = Table(
        *(Column(name, justify="right") for name in sweep.parameters),
        *(Column(header, justify="right") for header in headers),
        Column("least volume\nerror", justify="right"),
        box=None,
        header_style="dim",
        width=width,
        title=f"{sweep.title}: median over orbits, to t = {sweep.time:g}",
        title_justify="left",
    )
    errors, volumes = sweep.values["median_error"], sweep.values["volume_error"]
    for n in range(len(errors)):
        given = [f"{values[n]:g}" for values in sweep.parameters.values()]
        table.add_row(*given, *(f"{error:.1e}" for error in errors[n]), f"{min(volumes[n]):.1e}")
    return table
