"""Drawing of the layers of a model with their sizes, and a paragraph on how it was trained."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import matplotlib.figure
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

from vpintegrator.plotting.figure import Figure
from vpintegrator.plotting.figures.models import ModelScene
from vpintegrator.plotting.style import LOOKS
from vpintegrator.plotting.text import grouped, plain, shortened

_LETTERS = 44  # letters in a line of a box
_MOST = 24  # boxes
_PITCH = 3.6  # em from one box to the next
_DIGITS = 12  # of a fingerprint


@dataclass(frozen=True)
class Box:
    """A layer in the drawing: its name, its sizes, and the number of its parameters."""

    name: str
    sizes: str
    parameters: int

    @property
    def words(self) -> str:
        """The sizes and the number of parameters in a line."""
        count = f"{grouped(self.parameters)} parameters" if self.parameters else ""
        return "; ".join(filter(None, [shortened(self.sizes, _LETTERS), count]))


@dataclass(frozen=True)
class Unit:
    """Boxes that follow one another, several times."""

    boxes: tuple[Box, ...]
    repeats: int


def layers_of(core: Any) -> Iterator[Any]:
    """Yield the layers of a network one after the other, those of compositions one by one."""
    from torch import nn

    from vpintegrator.nn import Composition, Reversible
    from vpintegrator.nn.composition import psi_of

    if isinstance(core, Reversible):
        yield from layers_of(psi_of(core))
    elif isinstance(core, Composition | nn.Sequential):
        for layer in core:
            yield from layers_of(layer)
    elif not isinstance(core, nn.Flatten | nn.Unflatten):
        yield core


def box_of(layer: Any) -> Box:
    """Return the box of a layer: its class in words, its sizes and those of its parts."""
    from torch import nn

    linear = [part for part in layer.modules() if isinstance(part, nn.Linear)]
    sizes = [f"{part.in_features} → {part.out_features}" for part in linear]
    arguments = "" if isinstance(layer, nn.Linear) else layer.extra_repr()
    texts = [arguments] if arguments else []
    if not arguments and not linear:
        texts = [text for part in layer.modules() if (text := part.extra_repr())]
    texts = [re.sub(r"[\[\]']", "", text).replace("=", " ") for text in texts] + sizes
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(layer).__name__.lstrip("_"))
    count = sum(p.numel() for p in layer.parameters())
    return Box(words, ", ".join(dict.fromkeys(texts)), count)


def units_of(boxes: list[Box]) -> list[Unit]:
    """Return boxes in units: the shortest that repeat most are drawn once.

    Examples
    --------
    >>> from vpintegrator.plotting.figures.architecture import Box, units_of
    >>> a, b, c = (Box(name, "", 0) for name in "abc")
    >>> [(len(unit.boxes), unit.repeats) for unit in units_of([c, a, b, a, b, a, b])]
    [(1, 1), (2, 3)]
    """
    units = []
    place = 0
    while place < len(boxes):
        best = (1, 1)
        for length in range(1, (len(boxes) - place) // 2 + 1):
            unit = boxes[place : place + length]
            count = 1
            while boxes[place + count * length : place + (count + 1) * length] == unit:
                count += 1
            if count > 1 and count * length > best[0] * best[1]:
                best = (length, count)
        length, count = best
        units.append(Unit(tuple(boxes[place : place + length]), count))
        place += length * count
    return units


class ArchitectureFigure(Figure):
    """Layers of a model from top to bottom, with their sizes."""

    name = "architecture"
    on_request = True
    scene: ModelScene

    def applies(self) -> bool:
        return self.scene.model is not None

    @property
    def units(self) -> list[Unit]:
        """The layers of the model in units."""
        return units_of([box_of(layer) for layer in layers_of(self.scene.model.core)])

    @property
    def ends(self) -> tuple[str, str]:
        """Sizes of what the model reads and gives, in words."""
        model = self.scene.model
        words = [f"{n} state{'s' * (n > 1)}" for n in (model.window, model.prediction_window)]
        inputs, outputs = (f"{text} of {model.dim} components" for text in words)
        return inputs, f"{outputs}, new" if model.shifts else outputs

    def draw(self) -> matplotlib.figure.Figure:
        units = self.units
        inputs, outputs = self.ends
        count = min(sum(len(unit.boxes) for unit in units), _MOST) + 2
        figure = self.new(self.style.narrow, _PITCH * count + 2.5)
        axes = figure.add_subplot()
        axes.set_axis_off()
        axes.set(xlim=(0, 1), ylim=(-count, 0))
        colour = self.style.adapt(LOOKS[11]).colour
        self._box(axes, 0, Box(inputs, "", 0), self.style.foreground)
        place = 1
        for unit in units:
            first = place
            for box in unit.boxes[: max(count - 1 - place, 0)]:
                self._box(axes, place, box, colour)
                place += 1
            if unit.repeats > 1 and place > first:
                axes.plot(
                    [0.9, 0.92, 0.92, 0.9], [-first - 0.1] * 2 + [-place + 0.1] * 2, color=colour
                )
                text = f"× {unit.repeats}"
                axes.text(0.94, -(first + place) / 2, text, va="center", color=colour)
        self._box(axes, place, Box(outputs, "", 0), self.style.foreground)
        self.title(figure, plain(self.scene.name))
        return figure

    def _box(self, axes: Axes, place: int, box: Box, colour: str) -> None:
        """Draw a box, and an arrow to it from the one above."""
        patch = FancyBboxPatch(
            (0.06, -place - 0.82),
            0.82,
            0.64,
            boxstyle="round,pad=0,rounding_size=0.02",
            mutation_aspect=10,
            fc="none",
            ec=colour,
            lw=self.style.line,
        )
        axes.add_patch(patch)
        middle = -place - 0.5
        words = box.words
        axes.text(0.47, middle + 0.14 * bool(words), plain(box.name), ha="center", va="center")
        if words:
            size = 0.75 * self.style.letters
            axes.text(0.47, middle - 0.16, plain(words), ha="center", va="center", size=size)
        if place:
            arrow = {"arrowstyle": "-|>", "lw": self.style.line, "color": self.style.foreground}
            ends: dict[str, Any] = {"xy": (0.47, -place - 0.18), "xytext": (0.47, -place + 0.18)}
            axes.annotate("", **ends, arrowprops={**arrow, "shrinkA": 0, "shrinkB": 0})

    def sentences(self) -> list[str]:
        model = self.scene.model
        weights = sum(p.numel() for p in model.parameters())
        reversing = len(model.reversing_symmetries)
        count = sum(len(unit.boxes) for unit in self.units)
        symmetric = "The layers drawn are psi of the reversible map psi R psi^-1 R."
        return [
            f"Layers of {self.scene.name} ({model.name}): {grouped(weights)} parameters in "
            f"{str(model.scale.dtype).removeprefix('torch.')}; {_structure(model)}.",
            "Layers work on normalised components of states.",
            symmetric if type(model.core).__name__ == "Reversible" and reversing else "",
            f"The first {_MOST} of {count} layers are drawn." if count > _MOST else "",
        ]


def _structure(model: Any) -> str:
    return ", ".join(model.structure.words) or "no structure"


def methods_paragraph(scene: Any) -> str:
    """Return what a section on methods says of a trained model; empty where there is no record."""
    if not isinstance(scene, ModelScene) or scene.model is None or scene.history is None:
        return ""
    model = scene.model
    history = scene.history
    record = model.record
    plain_kinds = bool | int | float | str
    arguments = {k: v for k, v in model.arguments.items() if isinstance(v, plain_kinds)}
    sizes = ", ".join(f"{name} {value}" for name, value in arguments.items())
    system = "" if model.origin.system is None else f"{model.origin.system.title}: "
    fingerprint = model.origin.fingerprint[:_DIGITS]
    known = f"{system}{record.data}" + (f", fingerprint {fingerprint}" if fingerprint else "")
    code = "as machine code" if history.compiled else "in PyTorch"
    test = ""
    if math.isfinite(history.test_error):
        test = f", test error {history.test_error:.2e} ± {history.test_deviation:.1e}"
    sentences = [
        f"{scene.name} is a {model.name} ({sizes}) with {grouped(history.parameters)} parameters "
        f"in {str(model.scale.dtype).removeprefix('torch.')}: {_structure(model)}.",
        f"Training data: {known}." if known else "",
        f"Training: {history.optimizer}, {grouped(history.epochs)} epochs in {history.used:.3g} s "
        f"{code} on {history.device}, seed {history.seed}, stopped by {history.stopped_by}.",
        f"Errors one window ahead, relative to the spread of the states: validation "
        f"{history.best_validation_error:.2e} (epoch {grouped(history.best_epoch)}){test}.",
        f"Software: {', '.join(record.versions)}." if record.versions else "",
    ]
    return " ".join(filter(None, sentences))
