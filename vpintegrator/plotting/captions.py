"""Captions of figures in Markdown, and the sentences that they share.

The other sentences of a figure are in its file in ``figures``. They are plain text with numbers
like ``1.2e-05``.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from vpintegrator.dynamics import System
from vpintegrator.errors import printable
from vpintegrator.plotting.curves import SMALLEST
from vpintegrator.plotting.layout import FigureDeclaration
from vpintegrator.plotting.names import grouped, orbits
from vpintegrator.plotting.scene import Scene
from vpintegrator.plotting.tables import departures, markdown

_SPACE = "\0"  # a space at which no line may end
_LISTED = 8  # methods whose numbers a caption gives one by one


def markdown_paragraphs(texts: Mapping[str, str]) -> str:
    """Return captions, each under its figure's name, in lines of at most 100 characters."""
    return "\n".join(f"## {name}\n\n{_wrapped(markdown(text))}\n" for name, text in texts.items())


def _wrapped(text: str) -> str:
    """Wrap a paragraph of Markdown; no line begins like a list or a heading."""
    kept = re.sub(r" (?=(?:\d+[.)]|[-+*#>=]+)(?: |$))", _SPACE, text)
    lines = textwrap.wrap(kept, 100, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace(_SPACE, " ")


def caption(scene: Any, figure: FigureDeclaration[Any]) -> str:
    """Return the caption of a figure of a rollout or a model, one paragraph."""
    setting = [_setting(scene)] if isinstance(scene, Scene) else []
    return printable(" ".join([*setting, *figure.caption(scene)]))


def _setting(scene: Scene) -> str:
    """Return a sentence on the system, the initial states, the time and the step."""
    report = scene.report
    count = len(report.reference)
    states = "an initial state" if count == 1 else "initial states"
    origin = f"{states} given" if report.seed is None else f"random {states} (seed {report.seed})"
    if count == 1:
        origin = origin.replace("random an", "a random")
    stored = f", one in {grouped(report.every)} stored" if report.every > 1 else ""
    steps = round(report.times[-1] / report.step)
    return (
        f"{report.system.title}: {orbits(count)} from {origin} to t = "
        f"{grouped(report.times[-1])} with step {report.step:g} ({grouped(steps)} steps{stored})."
    )


def definitions(system: System, names: Iterable[str]) -> list[str]:
    """Return a sentence with the formulas of the named coordinates and invariants.

    Only names that the system file defines have a formula.
    """
    table = system.equations.table
    written = {**table.get("plot", {}).get("coordinates", {}), **table.get("invariants", {})}
    formulas = [
        f"{name} = {' '.join(str(written[name]).split())}" for name in names if name in written
    ]
    if not formulas:
        return []
    numbers = [f"{n} = {v}" for n, v in system.parameters.items() if isinstance(v, int)]
    given = f", where {listed(numbers)}" if numbers else ""
    return [f"Here {listed(formulas)}{given}."]


def methods(scene: Scene) -> str:
    """Return a sentence on the methods and the facts known of each."""
    parts = []
    for run in scene.runs.values():
        if run.kind == "learned":
            facts = ["learned"]
            if run.window > 1:
                facts.append(f"windows of {run.window} states")
            facts += [trait for trait in run.structure if trait.startswith("attention")]
            parts.append(f"{run.title} ({', '.join(facts)})")
        else:
            order = "" if run.order is None else f" (order {run.order})"
            parts.append(f"{run.title}{order}")
    several = [run.title for run in scene.runs.values() if run.seeds]
    if not several:
        return f"Methods: {listed(parts)}."
    return (
        f"Methods: {listed(parts)}. Of {listed(several)} orbits are those of the seed of median "
        "error, and curves of errors medians over the seeds, in a band of all of them."
    )


def reference(scene: Scene) -> str:
    """Return a sentence on the accuracy and the end of the reference."""
    report = scene.report
    end = ""
    if report.reference_time == 0:
        return "There is no reference."
    if report.reference_time < report.times[-1]:
        end = f" and ends at t = {grouped(report.reference_time)}"
    ends = report.reference_ends
    if ends.min() < ends.max():
        first, last = grouped(ends.min()), grouped(ends.max())
        end = (
            f"; that of an orbit ends where its error passes a tenth of the threshold, from t = "
            f"{first} to {last}, the median {grouped(report.reference_time)}"
        )
    if report.is_reference_given:
        return f"The reference is made of the states given{end}."
    error = report.reference_error.max()
    if not error:
        return f"The reference is the map itself{end}."
    return f"The reference is accurate to about {error:.0e}{end}."


def divergence(scene: Scene, mark: str = "") -> list[str]:
    """Return sentences on methods that diverged, and on models that left their training domain.

    ``mark`` tells how the figure marks the divergence.
    """
    report = scene.report
    failed = [name for name in scene.runs if report.diverged(name)]
    left = departures(scene.report)
    if not failed:
        return left
    parts = [
        f"{scene.runs[name].title} on {report.diverged(name)} of "
        f"{report.summary(name).trajectories} orbits, first at t = "
        f"{scene.first_failure(name):.4g}"
        for name in failed
    ]
    return [f"Diverged{mark}: {'; '.join(parts)}.", *left]


def size(value: float) -> str:
    """Return an error in words."""
    return f"{value:.1e}" if np.isfinite(value) else "diverged"


def by_method(
    scene: Scene,
    values: Mapping[str, float],
    form: Callable[[float], str] | Mapping[str, str] = size,
) -> str:
    """Return ``1.0e-03 (RK4) and 2.0e-05 (vpt)``; for many methods, the least and the largest.

    ``form`` gives the text of a value, or the texts by method.
    """
    texts = {name: form(value) for name, value in values.items()} if callable(form) else form
    parts = {name: f"{texts[name]} ({scene.runs[name].title})" for name in values}
    if len(parts) <= _LISTED:
        return listed(list(parts.values()))
    least = min(values, key=lambda name: abs(values[name]))
    most = max(values, key=lambda name: abs(values[name]))
    return f"from {parts[least]} to {parts[most]}, all of them in the table"


def long_steps(scene: Scene, comma: str = ";") -> str:
    """Return words on what is drawn between states if there are few steps in a turn."""
    if scene.pieces == 1:
        return ""
    dots = " methods as dots, a step apart, and" if scene.coarse else ""
    curve = "the exact solution" if scene.solved else "an interpolation"
    return f"{comma}{dots} between the reference's states {curve}"


def closing(scene: Scene, mark: str = " (crosses)", floor: bool = False) -> list[str]:
    """Return sentences on methods, divergences, zeros on logarithmic axes, and the reference."""
    zeros = [f"Exact zeros are drawn at {SMALLEST:.0e}."] if floor else []
    return [methods(scene), *divergence(scene, mark), *zeros, reference(scene)]


def capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def listed(parts: Sequence[str]) -> str:
    """Return ``a, b and c``."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)
