"""Comparison in vp-rollout: runs it, and prints the table, remarks and methods."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vpintegrator.cli.common import console, progress_bar, tell
from vpintegrator.cli.output import width_of, write_json
from vpintegrator.errors import InputError

if TYPE_CHECKING:
    from vpintegrator.dynamics import System
    from vpintegrator.models import Model
    from vpintegrator.rollout import Report

_TIME = 120.0  # default
_LATER = ("compiled", "work_precision", "diagnostics")  # no part of the plan of a comparison


def compare_methods(
    models: dict[str, list[Model]],
    given: System | None,
    against: str | None,
    output: Path | None,
    overwrite: bool,
    options: dict[str, Any],
) -> None:
    """Let all run, write what was measured, and say it."""
    from vpintegrator.cli.results import rollout_results
    from vpintegrator.plotting.tables import terminal_table
    from vpintegrator.rollout import compare
    from vpintegrator.rollout.methods import single_models
    from vpintegrator.rollout.plan import plan_comparison
    from vpintegrator.rollout.start import check_agreement
    from vpintegrator.runtime.interrupts import terminate_as_interrupt
    from vpintegrator.storage.files import check_output_last, safe_name

    single: dict[str, Model] = single_models(models)[0]
    if given is not None:
        check_agreement(single, given)
    name = given.name if given else next(iter(single.values())).metadata.get("system_name", "model")
    path = output or Path(f"{safe_name(name, 'model')}-rollout.h5")
    options |= _start(single, given, options)
    methods, columns = methods_named(against), options.pop("columns", None)
    asked = {name: value for name, value in options.items() if name not in _LATER}
    check_output_last(path, overwrite, lambda: plan_comparison(models or None, methods, **asked))
    terminate_as_interrupt()
    with _bars() as show:
        report = compare(models or None, against=methods, progress=show, **options)
    report.save(path, overwrite=overwrite)
    out = console()
    try:
        out.print(terminal_table(report, width_of(out), columns))
    except InputError as error:  # columns are known only after the measurements
        warnings.warn(f"--columns: {error}", stacklevel=2)
        out.print(terminal_table(report, width_of(out)))
    _remarks(report, against)
    tell(f"written to {path}; draw it with: vp-plot {path}")
    write_json(lambda: {"output": path, **rollout_results(report)})


def _start(
    models: dict[str, Model],
    given: System | None,
    options: dict[str, Any],
) -> dict[str, Any]:
    """Return the system, start and duration for :func:`vpintegrator.compare`."""
    from vpintegrator.rollout import recorded_dataset
    from vpintegrator.rollout.start import find_system

    system = find_system(models, given)
    found: dict[str, Any] = {"system": system}
    if (
        "initial" not in options
        and options.get("reference", "dataset" if system.is_measured else "") == "dataset"
    ):
        found["reference"] = "dataset"
        if "dataset" not in options:
            found["dataset"] = recorded = recorded_dataset(models)
            # the user must learn that a model from elsewhere makes the command read a file
            name = next(iter(models))
            tell(f"compared with {recorded}, which {name} was trained on")
    if not {"time", "steps"} & {*options} and "reference" not in found:
        found["time"] = _TIME
    return found


def _remarks(report: Report, against: str | None) -> None:
    """Print remarks on the comparison that the table does not contain."""
    from vpintegrator.plotting.text import grouped

    out = console()
    if report.every > 1:
        out.print(f"every step is measured; one state in {report.every:,} is kept")
    ends = report.reference_ends
    if ends.min() < ends.max():
        tell(
            "the reference of an orbit ends where its own error passes a tenth of the threshold: "
            f"from t = {grouped(ends.min())} to {grouped(ends.max())}, the median "
            f"{grouped(report.reference_time)}; errors are those up to there"
        )
    elif 0 < report.reference_time < report.times[-1]:
        tell(
            f"errors of trajectories are those up to t = {grouped(report.reference_time)}, where "
            "the reference ends (--reference-time, or where its own error passes a tenth of the "
            "threshold)"
        )
    if report.system.is_measured and report.system.derivatives:
        tell(
            f"{report.system.name} is a Python function, which the model does not hold: with "
            f"--system {report.system.function or 'MODULE:NAME'} classical methods run beside it"
        )
    elif report.system.is_measured:
        tell(
            f"the equations of {report.system.name} are not known; left out: an accurate solution, "
            "classical methods, and the phase-space volume of models that read several states"
        )
    elif "all" in (methods_named(against) or ()):
        _say_what_is_left_out(report.system)


@contextmanager
def _bars() -> Iterator[Callable[[str, int, int], None]]:
    """Show a progress bar for each method."""
    with progress_bar() as bar:
        tasks: dict[str, Any] = {}

        def show(method: str, done: int, total: int) -> None:
            if method not in tasks:
                tasks[method] = bar.add_task(method, total=total)
            bar.update(tasks[method], completed=done, total=total)

        yield show


def methods_named(against: str | None) -> list[str] | None:
    """Return the names of classical methods that the user gave, or None for the default."""
    if against is None:
        return None
    return [m.strip() for m in against.split(",") if m.strip() not in ("", "none")]


def print_methods(system: System | None) -> None:
    """Print all methods, or those for a system and the reasons why others do not apply."""
    from rich.table import Column, Table

    from vpintegrator.dynamics import Structure
    from vpintegrator.rollout import METHODS, applicable_methods

    methods = METHODS if system is None else applicable_methods(system)[0]
    table = Table(Column("method", no_wrap=True), "order", "structure", "source", box=None)
    for name, method in methods.items():
        if system is None:
            kept = Structure(method.form).words + (("symmetric",) if method.symmetric else ())
        else:
            kept = method.structure(system).words
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
    from vpintegrator.maps import period_flow_of
    from vpintegrator.rollout import applicable_methods

    if system.is_discrete and period_flow_of(system) is None:
        console().print(f"left out: all classical methods, as {system.name} is a map")
        return
    for reason in applicable_methods(system)[1].values():
        tell(f"left out: {reason}")
