"""Output of vp-gen on the catalogue: the list of systems, and one system in full."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from vpintegrator.cli.common import console, tell
from vpintegrator.cli.output import write_json
from vpintegrator.cli.results import system_results

if TYPE_CHECKING:
    from vpintegrator.dynamics import System

_PAIRS = 8  # of positions and momenta that are shown


def list_catalogue() -> None:
    """Print the datasets, and the systems under their subjects."""
    from rich.table import Column, Table
    from rich.text import Text

    from vpintegrator.catalogue import recipe_summaries, system_summaries

    out = console()
    look: dict[str, Any] = {
        "box": None,
        "pad_edge": False,
        "title_justify": "left",
        "title_style": "bold",
    }
    systems = Table(
        Column("system", no_wrap=True),
        Column("dim", no_wrap=True),
        Column("structure", no_wrap=True),
        "title",
        title="Systems (dim: with the parameter that sets it, as in -p n=16)",
        **look,
    )
    for subject, group in itertools.groupby(system_summaries(), key=lambda system: system.subject):
        systems.add_section()
        systems.add_row(Text(subject, style="italic"))
        for system in group:
            size = f" ({system.size})" if system.size else ""
            structure = system.kind.replace("not divergence-free", "neither")
            systems.add_row(system.name, f"{system.dim}{size}", structure, system.title)
    datasets = Table(
        Column("dataset", no_wrap=True),
        Column("trajectories", no_wrap=True),
        "title",
        title="Datasets (each system is one, too: 1,300 trajectories as it suggests)",
        **look,
    )
    for recipe in recipe_summaries():
        datasets.add_row(
            recipe.name,
            f"{recipe.count} of {recipe.steps} steps of {recipe.step:g}",
            recipe.title,
        )
    out.print(systems, "", datasets)
    write_json(
        lambda: {
            "systems": [asdict(system) for system in system_summaries()],
            "datasets": [asdict(recipe) for recipe in recipe_summaries()],
        }
    )


def show_system(name: str, parameters: dict[str, Any]) -> None:
    """Print a system's equations, parameters, invariants, symmetries and divergence."""
    from vpintegrator.cli.own_code import load_system_asked
    from vpintegrator.dynamics.typeset import (
        divergence_unicode,
        equations_unicode,
        invariants_unicode,
        symmetries_unicode,
    )

    system = load_system_asked(name, parameters)
    out = console()

    def section(title: str, *lines: str) -> None:
        out.print(f"\n{title}", style="bold")
        for line in "\n".join(lines).splitlines():
            tell("  " + line)

    out.print(system.title, style="bold")
    out.print(f"{system.name}, {system.dim} components, {system.kind}")
    for text in (system.description, system.reference):
        if text:
            out.print(text)
    width = max(out.width - 2, 60)
    if system.has_formulas:
        equations = equations_unicode(system, width)
    elif system.derivatives:
        equations = f"a Python function, {system.function or 'without a name'}"
    else:
        equations = "not known: measured"
    section("Map" if system.equations.stages else "Equations", equations)
    if returns := system.equations.returns:
        section("Return map", returns.words)
    if system.is_canonical:
        section("Positions and their momenta", *_conjugate(system))
    if system.parameters:
        section("Parameters", *(f"{k} = {_value(v)}" for k, v in system.parameters.items()))
    section("Invariants", invariants_unicode(system, width) or "none declared")
    reversal = "(ρ M ρ M = 1)" if system.is_discrete else "(f(ρz) = -ρ f(z))"
    section(
        f"Reversing symmetries {reversal}",
        *(symmetries_unicode(system) or ["none declared"]),
    )
    if system.time:
        period = f", of period {system.period:.9g}" if system.period else ""
        section("Time", f"{system.time}, a component of the state{period}")
    angles = {i: period for i, period in system.periods.items() if i != system.explicit_time}
    if angles:
        words = (f"{system.components[i]} {period:.9g}" for i, period in angles.items())
        section("Angles and their periods", ", ".join(words))
    if not system.is_measured:
        section(
            "Derivative" if system.is_discrete else "Divergence", divergence_unicode(system, width)
        )
    if system.chart:
        section(f"Other coordinates, {system.chart.system.kind} there", *_chart(system))
    hidden = "step" if system.is_discrete else ""  # is always one
    if suggested := [f"{k} {v:g}" for k, v in system.defaults.items() if k != hidden]:
        section("Suggested", ", ".join(suggested))
    write_json(lambda: system_results(system))


def _conjugate(system: System) -> Iterator[str]:
    """Yield the first pairs of a position and its momentum, and why they are pairs."""
    from vpintegrator.dynamics.conjugate import conjugate_pairs

    names = system.components
    pairs = [(names[q], names[p]) for q, p in zip(*system.equations.halves, strict=True)]
    more = "; ..." if len(pairs) > _PAIRS else ""
    yield "; ".join(f"{q}, {p}" for q, p in pairs[:_PAIRS]) + more
    if conjugate_pairs(names[: system.phase_dim], velocities=True) is None:
        yield "the names of the components do not say so: positions come first, then momenta"


def _chart(system: System) -> Iterator[str]:
    """Yield the new components, a line each, as in the file."""
    chart = system.equations.table["chart"]
    for name, texts in chart["map"].items():
        texts = texts if isinstance(texts, list) else [texts]
        yield f"{name} = {', '.join(' '.join(str(text).split()) for text in texts)}"


def _value(value: Any) -> str:
    return ", ".join(f"{v:.9g}" for v in value) if isinstance(value, list) else f"{value:.9g}"
