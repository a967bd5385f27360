"""What vp-gen says about one system."""

from __future__ import annotations

from typing import Any

from vpintegrator.cli.common import console
from vpintegrator.cli.output import write_json
from vpintegrator.cli.results import system_results


def show_system(name: str, parameters: dict[str, Any]) -> None:
    """Print a system's equations, parameters, invariants, symmetries and divergence."""
    from vpintegrator.dynamics import load_system
    from vpintegrator.dynamics.typeset import (
        divergence_unicode,
        equations_unicode,
        invariants_unicode,
        symmetries_unicode,
    )

    system = load_system(name, **parameters)
    out = console()

    def section(title: str, *lines: str) -> None:
        out.print(f"\n{title}", style="bold")
        for line in "\n".join(lines).splitlines():
            out.print("  " + line, soft_wrap=True)

    out.print(system.title, style="bold")
    out.print(f"{system.name}, {system.dim} components, {system.structure}")
    for text in (system.description, system.reference):
        if text:
            out.print(text)
    width = max(out.width - 2, 60)
    equations = "not known: measured" if system.is_measured else equations_unicode(system, width)
    section("Equations", equations)
    if system.parameters:
        section("Parameters", *(f"{k} = {_value(v)}" for k, v in system.parameters.items()))
    section("Invariants", invariants_unicode(system, width) or "none declared")
    section(
        "Reversing symmetries (f(ρz) = -ρ f(z))",
        *(symmetries_unicode(system) or ["none declared"]),
    )
    if system.periods:
        angles = (f"{system.components[i]} {period:.9g}" for i, period in system.periods.items())
        section("Angles and their periods", ", ".join(angles))
    if not system.is_measured:
        section("Divergence", divergence_unicode(system, width))
    if system.defaults:
        section("Suggested", ", ".join(f"{k} {v:g}" for k, v in system.defaults.items()))
    write_json(lambda: system_results(system))


def _value(value: Any) -> str:
    return ", ".join(f"{v:.9g}" for v in value) if isinstance(value, list) else f"{value:.9g}"
