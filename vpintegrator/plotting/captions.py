"""Captions of figures in Markdown, and the sentences that they share.

The other sentences of a figure are in its file in ``figures``. They are plain text with numbers
like ``1.2e-05``, the most important ones first: a caption has as many as fit into five lines.
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
from vpintegrator.plotting.names import grouped, orbits, shortened
from vpintegrator.plotting.scene import Scene
from vpintegrator.plotting.tables import attention_changes, departures, markdown, size

LINES, _LETTERS = 5, 100  # of a caption, and of a line
_SPACE = "\0"  # a space at which no line may end
_LISTED = 3  # methods whose numbers a caption gives one by one
_TITLE = 60  # letters of a system's title


def markdown_paragraphs(texts: Mapping[str, str]) -> str:
    """Return captions, each under its figure's name, in lines of at most 100 characters."""
    wrapped = {name: "\n".join(_wrapped(text)) for name, text in texts.items()}
    return "\n".join(f"## {name}\n\n{text}\n" for name, text in wrapped.items())


def _wrapped(text: str) -> list[str]:
    """Return the lines of a paragraph of Markdown; none begins like a list or a heading."""
    kept = re.sub(r" (?=(?:\d+[.)]|[-+*#>=]+)(?: |$))", _SPACE, markdown(text))
    lines = textwrap.wrap(kept, _LETTERS, break_long_words=False, break_on_hyphens=False)
    return [line.replace(_SPACE, " ") for line in lines]


def caption(scene: Any, figure: FigureDeclaration[Any]) -> str:
    """Return the caption of a figure of a rollout or a model, at most five lines."""
    setting = [_setting(scene, figure.whole)] if isinstance(scene, Scene) else []
    text = ""
    for sentence in [*setting, *figure.caption(scene)]:
        longer = f"{text} {printable(sentence)}".strip()
        if len(_wrapped(longer)) <= LINES:
            text = longer
    return text


def _setting(scene: Scene, whole: bool) -> str:
    """Return a sentence on the system and the initial states, and the time and step of a whole."""
    report = scene.report
    count = len(report.reference)
    states = "an initial state" if count == 1 else "initial states"
    origin = f"{states} given" if report.seed is None else f"random {states} (seed {report.seed})"
    if count == 1:
        origin = origin.replace("random an", "a random")
    stored = f", one in {grouped(report.every)} stored" if report.every > 1 else ""
    time = f" to t = {grouped(report.times[-1])} with step {report.step:g}{stored}" * whole
    return f"{shortened(report.system.title, _TITLE)}: {orbits(count)} from {origin}{time}."


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
        end = (
            f", up to t = {grouped(ends.min())} to {grouped(ends.max())}, the median "
            f"{grouped(report.reference_time)}: it ends where its error is a tenth of the threshold"
        )
    if report.is_reference_given:
        return f"The reference is made of the states given{end}."
    if not report.accuracy:
        return f"The reference is the map itself{end}."
    return f"The reference is accurate to about {report.accuracy:.0e}{end}."


def divergence(scene: Scene, mark: str = "") -> list[str]:
    """Return a sentence on methods that diverged; ``mark`` tells how the figure marks them."""
    report = scene.report
    failed = {name: scene.first_failure(name) for name in scene.runs if report.diverged(name)}
    parts = [
        f"{scene.runs[name].title} on {report.diverged(name)} of "
        f"{report.summary(name).trajectories} orbits, first at t = {time:.4g}"
        for name, time in failed.items()
    ]
    if len(parts) > _LISTED:
        first = min(failed, key=lambda name: failed[name])
        parts = [f"{len(parts)} methods, first {parts[list(failed).index(first)]}"]
    return [f"Diverged{mark}: {'; '.join(parts)}."] if parts else []


def by_method(
    scene: Scene,
    values: Mapping[str, float],
    form: Callable[[float], str] | Mapping[str, str] = size,
) -> str:
    """Return ``1.0e-03 (RK4) and 2.0e-05 (vpt)``; for many methods, the least and the largest.

    ``form`` gives the text of a value, or the texts by method.
    """
    texts = {name: form(value) for name, value in values.items()} if callable(form) else form
    parts = {name: f"{texts[name]} ({shortened(scene.runs[name].title)})" for name in values}
    if len(parts) <= _LISTED:
        return listed(list(parts.values()))
    least = min(values, key=lambda name: abs(values[name]))
    most = max(values, key=lambda name: abs(values[name]))
    return f"from {parts[least]} to {parts[most]}"


def by_title(scene: Scene, names: Sequence[str]) -> str:
    """Return the titles of methods, the number of many."""
    if len(names) > _LISTED:
        return f"{len(names)} methods"
    return listed([shortened(scene.runs[name].title) for name in names])


def long_steps(scene: Scene, comma: str = ";") -> str:
    """Return words on what is drawn between states if there are few steps in a turn."""
    if scene.pieces == 1:
        return ""
    dots = " methods as dots, a step apart, and" if scene.coarse else ""
    curve = "the exact solution" if scene.solved else "an interpolation"
    return f"{comma}{dots} between the reference's states {curve}"


CURVES, TYPICAL = (
    "curves are medians over the seeds, in a band of all",
    "orbits are of the median seed",
)


def events(scene: Scene, shown: str = TYPICAL) -> list[str]:
    """Return sentences on what is shown of several models of one name, and on divergences."""
    several = [shortened(run.title) for run in scene.runs.values() if run.seeds]
    seeds = [f"Of {listed(several)} {shown}."] if several else []
    return [*seeds, *divergence(scene, " (crosses)" if CURVES in shown else "")]


def notes(scene: Scene, curves: Iterable[np.ndarray] = ()) -> list[str]:
    """Return sentences on zeros of logarithmic curves, attention, and the training domain."""
    zero = any((curve == 0).any() for curve in curves)
    floor = [f"Exact zeros are drawn at {SMALLEST:.0e}."] if zero else []
    return [*floor, *attention_changes(scene.runs.values()), *departures(scene.report)]


def closing(scene: Scene) -> list[str]:
    """Return sentences on divergences, the reference, and the training domain."""
    return [*events(scene), reference(scene), *notes(scene)]


def capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def listed(parts: Sequence[str]) -> str:
    """Return ``a, b and c``."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)
