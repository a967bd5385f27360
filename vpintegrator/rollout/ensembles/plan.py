"""Plan of an ensemble: number of steps, plane, escape condition, rotation numbers."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from vpintegrator.dynamics import System
from vpintegrator.dynamics.training_domain import Domain
from vpintegrator.errors import InputError
from vpintegrator.rollout.ensembles.escape import Escape

CENTRES = {
    "elliptic": "about the elliptic fixed point {}",
    "mean": "about the mean {} of the states, as no elliptic fixed point was found",
    "given": "about {}",
}
MOST_CELLS = 2**24
Interval = tuple[float, float]


@dataclass(frozen=True)
class EnsemblePlan:
    """Settings of the statistics of an ensemble.

    The numbers depend on the plan, the flow and the initial states only.

    Attributes
    ----------
    system
        The system.
    steps
        Largest number of steps of each trajectory.
    pair
        Numbers of the components on the axes.
    view
        Visible part of the plane, ((left, right), (low, high)).
    columns, rows
        Cells of the view.
    escape
        Condition under which a state is outside.
    turning
        Whether rotation numbers are wanted.
    centre
        Point of the plane about which orbits turn.
    angle
        Number of a component that is an angle, whose advance gives the turns, in place of
        ``centre``.
    domain
        Training domain of the model, None if it is not known.
    about
        Origin of the centre: ``"elliptic"``, a fixed point; ``"mean"``, the mean of the states, if
        no fixed point was found; ``"given"``.
    near
        Turns per step beside the centre, including whole turns, if the number of revolutions of the
        flow between two returns is known. Rotation numbers of orbits differ from it by at most half
        a turn.
    """

    system: System
    steps: int
    pair: tuple[int, int]
    view: tuple[Interval, Interval]
    columns: int
    rows: int
    escape: Escape
    turning: bool = True
    centre: tuple[float, float] | None = None
    angle: int | None = None
    about: str = "given"
    near: float = 0.0
    domain: Domain | None = None

    @property
    def names(self) -> tuple[str, str]:
        """Names of the components on the axes."""
        return self.system.components[self.pair[0]], self.system.components[self.pair[1]]

    @property
    def centre_words(self) -> str:
        """Angle, or centre, of the rotation numbers in words."""
        if self.angle is not None:
            return f"of the angle {self.system.components[self.angle]}"
        point = f"({', '.join(f'{x:.4g}' for x in self.centre or ())})"
        words = CENTRES[self.about].format(point)
        return f"{words}, in a plane that is not canonical" if self.projected else words

    @property
    def projected(self) -> bool:
        """Whether turns are about a point of a plane that is not canonical."""
        return self.centre is not None and not self.is_canonical

    @property
    def is_canonical(self) -> bool:
        """Whether turns about a point of the plane are rotation numbers."""
        return is_canonical_plane(self.system, self.pair)

    @property
    def scales(self) -> tuple[float, float]:
        """Factors that make the view square, so that angles advance evenly."""
        (left, right), (low, high) = self.view
        return 1 / (right - left), 1 / (high - low)

    def period(self, component: int) -> float:
        """Return the period of a component that is an angle; 0 for other components."""
        return self.system.periods.get(component, 0.0)

    def edges(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the edges of the cells along both axes."""
        (left, right), (low, high) = self.view
        return np.linspace(left, right, self.columns + 1), np.linspace(low, high, self.rows + 1)

    def cells(self, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return column and row (n, 2) of states (n, dim), and a mask of those in the view."""
        found, inside = np.zeros((len(states), 2), np.int64), np.ones(len(states), bool)
        for k, count in enumerate((self.columns, self.rows)):
            low, high = self.view[k]
            x = states[:, self.pair[k]] - low
            if period := self.period(self.pair[k]):
                x = x - period * np.floor(x * (1 / period))
            x = x * (count / (high - low))
            if period:
                x = np.where(x >= count, count - 1, x)
            inside &= (x >= 0) & (x < count)
            found[:, k] = np.where(inside, x, 0)
        return found, inside

    def angles(self, states: np.ndarray) -> np.ndarray:
        """Return angles of states (..., dim)."""
        if self.angle is not None:
            return states[..., self.angle] * (2 * np.pi / self.system.periods[self.angle])
        offsets = []
        for k, (centre, scale) in enumerate(
            zip(self.centre or (0.0, 0.0), self.scales, strict=True)
        ):
            x = states[..., self.pair[k]] - centre
            if period := self.period(self.pair[k]):
                x = x - period * np.round(x * (1 / period))
            offsets.append(x * scale)
        return np.arctan2(offsets[1], offsets[0])

    def as_json(self) -> dict[str, Any]:
        """Return the plan for a file; plans are equal if their JSON is."""
        domain = self.escape.domain
        rotation = None if self.angle is None else self.system.components[self.angle]
        return {
            "steps": self.steps,
            "plane": list(self.names),
            "view": [list(interval) for interval in self.view],
            "cells": [self.columns, self.rows],
            "escape": self.escape.words,
            "region": None if domain is None else json.loads(domain.text),
            "rotation": (self.centre and list(self.centre)) if rotation is None else rotation,
            "about": self.about,
            "near": self.near,
            "domain": None if self.domain is None else json.loads(self.domain.text),
        }


def find_plane(system: System, names: Any) -> tuple[int, int]:
    """Return the numbers of two components: named ``"q,p"``, a canonical pair, or the first two.

    Raises
    ------
    InputError
        If they are no two components.
    """
    moving = system.components[: system.phase_dim]
    if names is None:
        if len(moving) < 2:
            raise InputError(f"{system.name} has one component: there is no plane to look at")
        positions, momenta = system.equations.halves
        return (positions[0], momenta[0]) if system.is_canonical else (0, 1)
    given = [part.strip() for part in names.split(",")] if isinstance(names, str) else [*names]
    if len(given) != 2 or given[0] == given[1] or not {*given} <= {*system.components}:
        raise InputError(
            f"plane = {names!r}: expected two of the components {', '.join(system.components)}"
        )
    first, second = (system.components.index(name) for name in given)
    return first, second


def is_canonical_plane(system: System, pair: tuple[int, int]) -> bool:
    """Whether turns about a point of the plane are rotation numbers.

    This holds in a phase space of two components, and in the plane of a coordinate and its
    momentum. In other planes a torus need not wind in one sense about any point.
    """
    moving = system.phase_dim
    if moving == 2:
        return {*pair} == {0, 1}
    conjugate = [{*each} for each in zip(*system.equations.halves, strict=True)]
    return system.is_canonical and {*pair} in conjugate


def read_view(system: System, pair: tuple[int, int], text: Any) -> tuple[Interval, Interval] | None:
    """Parse ``"q=-1:1,p=-2:2"``, or a mapping of names to (least, largest), to a rectangle.

    Raises
    ------
    InputError
        If it is none, or not of the components on the axes.
    """
    if text is None:
        return None
    names = [system.components[k] for k in pair]
    pattern = re.compile(r"\s*(.+?)\s*=\s*(\S+?)\s*:\s*(\S+?)\s*")
    try:
        if isinstance(text, str):
            parts = [pattern.fullmatch(part) for part in text.split(",")]
            items = {p[1]: (float(p[2]), float(p[3])) for p in parts if p is not None}
            if None in parts:
                raise ValueError
        else:
            items = {name: (float(low), float(high)) for name, (low, high) in dict(text).items()}
        found = items[names[0]], items[names[1]]
        sound = len(items) == 2 and all(-1e300 < a < b < 1e300 for a, b in found)
    except (KeyError, TypeError, ValueError):
        sound = False
    if not sound:
        raise InputError(
            f"view = {text!r}: expected least and largest values of both components of the plane, "
            f"as in '{names[0]}=-1:1,{names[1]}=-1:1'"
        )
    return found


def read_resolution(value: int | tuple[int, int]) -> tuple[int, int]:
    """Return columns and rows of ``1024`` or ``(1600, 900)``.

    Raises
    ------
    InputError
        If they are none, or more than fit a picture.
    """
    columns, rows = value if isinstance(value, tuple | list) else (value, value)
    whole = all(isinstance(n, int) and not isinstance(n, bool) and n >= 1 for n in (columns, rows))
    if not whole or columns * rows > MOST_CELLS:
        raise InputError(
            f"resolution = {value!r}: expected cells on a side, or (columns, rows), at most "
            f"{MOST_CELLS:,} in all"
        )
    return columns, rows


def usual_view(
    pair: tuple[int, int],
    system: System,
    states: np.ndarray,
    domain: Domain | None,
    initial: np.ndarray,
) -> tuple[Interval, Interval]:
    """Return a view that contains the trajectories.

    The view of an angle is a whole period. Other axes contain the states of a trial run, (...,
    dim), limited to the training domain, if it is known, and the initial states.
    """
    found = []
    for k in pair:
        if period := system.periods.get(k):
            found.append((-period / 2, period / 2))
            continue
        values = states[..., k]
        values = values[np.isfinite(values)]
        low, high = (values.min(), values.max()) if values.size else (-1.0, 1.0)
        if domain is not None and system.components[k] in domain.components:
            least, largest = domain.components[system.components[k]]
            least, largest = min(least, initial[:, k].min()), max(largest, initial[:, k].max())
            low, high = min(max(low, least), high), max(min(high, largest), low)
        margin = 0.04 * (high - low) or 0.5 * abs(high) or 0.5
        found.append((float(low - margin), float(high + margin)))
    return found[0], found[1]
