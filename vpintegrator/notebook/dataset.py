"""A dataset in a notebook: its parts, the range of each component, and how accurate it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from vpintegrator.data import Dataset, Ranges, ranges
from vpintegrator.data.inspection import accuracy_text
from vpintegrator.data.values import is_number
from vpintegrator.dynamics import System
from vpintegrator.notebook.page import facts, heading, paragraph, table, whole

_SHOWN = 12  # components of a state


def html(dataset: Dataset) -> str:
    """Return HTML of a dataset: groups, ranges of the components, accuracy."""
    system, found = dataset.system, ranges(dataset)
    return whole(
        heading(dataset.title, about(system)),
        table(
            ("part", "trajectories", "states of each"),
            [(name, f"{shape[0]:,}", f"{shape[1]:,}") for name, shape in dataset.shapes.items()],
        ),
        table(("component", "least", "largest"), _ranges(system, found)),
        paragraph(_looked(found)),
        facts(
            [
                ("step", dataset.step_text),
                *_varied(dataset),
                ("accuracy", accuracy(dataset)),
                ("noise", _noise(dataset)),
                ("missing", "" if dataset.is_complete else "some states were not observed"),
                ("file", dataset.path),
            ]
        ),
    )


def about(system: System) -> str:
    """Return a system in a line, with its parameters."""
    parameters = ", ".join(f"{name} = {_value(value)}" for name, value in system.parameters.items())
    known = ", measured: its equations are not known" if system.is_measured else ""
    return f"{system.title} ({system.name}{known}){': ' + parameters if parameters else ''}"


def accuracy(dataset: Dataset) -> str:
    """Return the accuracy of the states in words; empty if the file has no number for it."""
    error = dataset.accuracy.get("estimated_error")
    if is_number(error):
        return accuracy_text(f"{error:.1e}", dataset.accuracy)
    return "iterated by formula" if dataset.system.is_discrete else ""


def _value(value: Any) -> str:
    if isinstance(value, list):
        more = ", ..." if len(value) > _SHOWN else ""
        return f"({', '.join(f'{v:.6g}' for v in value[:_SHOWN])}{more})"
    return f"{value:.6g}"


def _ranges(system: System, found: Ranges) -> Iterator[tuple[str, str, str]]:
    low, high = found.low, found.high
    for name, least, most in zip(system.components[:_SHOWN], low, high, strict=False):
        yield name, f"{least:.6g}", f"{most:.6g}"
    if (more := system.dim - _SHOWN) > 0:
        least, most = np.fmin.reduce(low[_SHOWN:]), np.fmax.reduce(high[_SHOWN:])
        yield f"{more:,} more", f"{least:.6g}", f"{most:.6g}"


def _looked(found: Ranges) -> str:
    if found.are_all:
        return f"Ranges of all {found.states:,} states."
    return f"Ranges of {found.looked:,} states, spread evenly, of {found.states:,}."


def _varied(dataset: Dataset) -> Iterator[tuple[str, str]]:
    for name, (low, high) in dataset.varied.items():
        if name != "step":
            yield name, f"{low:.6g} to {high:.6g}"


def _noise(dataset: Dataset) -> str:
    if dataset.noise is None or not np.any(dataset.noise):
        return ""
    shown = ", ".join(f"{value:.2g}" for value in dataset.noise[:_SHOWN])
    return f"standard deviation {shown}{', ...' if len(dataset.noise) > _SHOWN else ''}"
