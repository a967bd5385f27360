"""The statistics of an ensemble, and their file."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from vpintegrator.arguments import as_path
from vpintegrator.dynamics import System
from vpintegrator.dynamics.state_file import read_system, write_header
from vpintegrator.dynamics.training_domain import Domain
from vpintegrator.errors import InputError, printable
from vpintegrator.rollout.diagnostics.rotation import ENOUGH, tolerance_of
from vpintegrator.rollout.ensembles.escape import Escape
from vpintegrator.rollout.ensembles.plan import CENTRES, MOST_CELLS, EnsemblePlan
from vpintegrator.rollout.ensembles.statistics import Counts
from vpintegrator.rollout.variables import TRAJECTORY, Variable, read_variables
from vpintegrator.storage.hdf5 import create_hdf5, write_words
from vpintegrator.storage.reading import LARGEST_UNSTORED, StoredGroup, open_hdf5

FORMAT, FORMAT_VERSION = "vpintegrator-ensemble", 1


@dataclass(frozen=True)
class EnsembleStatistics(Counts):
    """Statistics of very many trajectories of one map.

    Made by :func:`vpintegrator.rollout.ensemble` or :func:`vpintegrator.rollout.open_ensemble`.

    Attributes
    ----------
    plan
        Settings: system, steps, plane, view, escape condition, rotation numbers.
    step
        Time step.
    name, kind, title
        Name, kind and title of the map; the kind is ``"learned"``, ``"classical"`` or ``"exact"``.
    seed
        Seed of the initial states, None if they were given.
    initial
        Initial states, (trajectory, dim).
    density
        Number of states in each cell of the view, (rows, columns), the lowest row first.
    off
        Number of states in no cell.
    left
        First step at which a trajectory is outside, -1 if it never is, (trajectory,).
    left_domain
        First step at which a trajectory is out of the training domain before it is outside, -1 if
        it never is, (trajectory,); None if the domain is not known or is itself the escape
        condition.
    rotation, change
        Turns per step, counterclockwise in the plane, and their difference between the two halves
        of the trajectory. Turns differ from ``plan.near`` by at most half a turn, as whole turns
        cannot be seen. The difference is small on tori and large in chaos. (trajectory,); NaN for
        trajectories that left, None if not asked for.

    Examples
    --------
    >>> found = vp.rollout.open_ensemble("pendulum-ensemble.h5")  # doctest: +SKIP
    >>> found.confined[-1]  # the fraction that stayed # doctest: +SKIP
    """

    plan: EnsemblePlan
    step: float
    name: str
    kind: str
    title: str
    seed: int | None
    initial: np.ndarray

    def __repr__(self) -> str:
        stayed = f"{100 * self.confined[-1]:.4g} % stayed"
        return (
            f"<EnsembleStatistics {self.system.name}: {self.name}, {len(self.left):,} trajectories "
            f"of {self.plan.steps:,} steps of {self.step:g}, {stayed}>"
        )

    @property
    def system(self) -> System:
        """The system."""
        return self.plan.system

    @property
    def confined(self) -> np.ndarray:
        """The fraction of trajectories that are inside up to each step, (steps + 1,)."""
        count = np.bincount(self.left[self.left >= 0], minlength=self.plan.steps + 1)
        return 1 - np.cumsum(count) / len(self.left)

    @property
    def tolerance(self) -> float:
        """Largest difference between the halves of a regular orbit, in turns per step."""
        return tolerance_of(self.plan.steps)

    @property
    def regular(self) -> np.ndarray:
        """Trajectories that stay and whose halves agree within the tolerance, (trajectory,)."""
        if self.change is None:
            return np.zeros(len(self.left), bool)
        return np.asarray(self.change < self.tolerance)  # NaN of those that left

    @property
    def length_words(self) -> str:
        """Whether orbits are long enough to tell tori from chaos."""
        if self.plan.steps >= ENOUGH:
            return f"{self.plan.steps:,} steps are enough to tell tori from chaos"
        return f"to tell tori from chaos takes {ENOUGH:,} steps"

    @property
    def in_domain(self) -> np.ndarray:
        """The fraction inside that has not left the training domain either, (steps + 1,)."""
        first = self.left if self.left_domain is None else self.left_domain
        first = np.where(first < 0, self.left, first)
        count = np.bincount(first[first >= 0], minlength=self.plan.steps + 1)
        return 1 - np.cumsum(count) / len(first)

    @property
    def domain_words(self) -> str:
        """Sentence on trajectories that leave the training domain of a model, or an empty text."""
        if self.plan.domain is None:
            unknown = "The model does not say which states it was trained on."
            return unknown if self.kind == "learned" else ""
        if self.left_domain is None:
            return ""
        gone = self.left_domain[self.left_domain >= 0]
        if not gone.size:
            return "All stay in the training domain while they are followed."
        return (
            f"{gone.size:,} of {len(self.left):,} trajectories are out of the training domain at "
            f"some step, {(gone == 0).sum():,} of them from the start; the model was not trained "
            "there."
        )

    def table(self) -> list[dict[str, Any]]:
        """Return one row with the name and the numbers."""
        row: dict[str, Any] = {
            "method": self.title,
            "trajectories": len(self.left),
            "steps": self.plan.steps,
            "step": self.step,
            "states": int(self.density.sum()) + self.off,
            "confined": float(self.confined[-1]),
            "median_left": float(np.median(self.left[self.left >= 0]))
            if (self.left >= 0).any()
            else float("nan"),
            "left_domain": self._left_domain_count,
        }
        if self.rotation is not None and self.change is not None:
            known = np.isfinite(self.rotation)
            row["rotation_from"] = float(self.rotation[known].min()) if known.any() else np.nan
            row["rotation_to"] = float(self.rotation[known].max()) if known.any() else np.nan
            row["regular"] = int(self.regular.sum()) / len(self.left)
            row["tolerance"] = self.tolerance
        return [row]

    @property
    def _left_domain_count(self) -> int | None:
        if self.plan.domain is None:
            return None
        first = self.left if self.left_domain is None else self.left_domain
        return int((first >= 0).sum())

    def save(self, path: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write a file from which it can be drawn.

        Raises
        ------
        InputError
            If the file exists and ``overwrite`` is false, or cannot be written.
        """
        with create_hdf5(path, overwrite) as f:
            self.write(f)

    def write(self, f: h5py.File) -> None:
        """Write it to an open file."""
        write_header(f, FORMAT, FORMAT_VERSION, self.system, self.step)
        f.attrs["title"] = f"Ensemble: {printable(self.system.title)}"
        for key in ("name", "kind", "title"):
            f.attrs[f"method_{key}"] = printable(getattr(self, key))
        if self.seed is not None:
            f.attrs["seed"] = self.seed
        f.attrs["off"] = self.off
        plan = self.plan.as_json()
        f.attrs["plan"] = json.dumps(plan)
        numbers = np.arange(len(self.left))
        Variable("trajectory", "number of the trajectory", TRAJECTORY, values=numbers).write(f)
        write_words(f, "component", self.system.components, "component of the state")
        for name, edges, title in zip(("x", "y"), self.plan.edges(), self.plan.names, strict=True):
            middle, words = (edges[1:] + edges[:-1]) / 2, f"{title} at the middle of a cell"
            Variable(name, words, (name,), values=middle).write(f)
        density = _write_density(f, self.density)
        for axis, name in enumerate(("y", "x")):
            density.dims[axis].attach_scale(f[name])
        for variable in _VARIABLES:
            if (values := getattr(self, variable.name)) is not None:
                replace(variable, values=values).write(f)


_KINDS = ("learned", "classical", "exact")
_VARIABLES = (
    Variable("initial", "initial state", ("trajectory", "component"), required=True),
    Variable("left", "first step outside, -1 for none", TRAJECTORY, required=True, whole=True),
    Variable(
        "left_domain",
        "first step out of the training domain before that, -1 for none",
        TRAJECTORY,
        whole=True,
    ),
    Variable("rotation", "turns per step, counterclockwise in the plane", TRAJECTORY),
    Variable("change", "difference of turns per step between the halves of the way", TRAJECTORY),
)


def _write_density(f: h5py.File, density: np.ndarray) -> h5py.Dataset:
    packed = {"compression": "gzip", "shuffle": True} if density.nbytes < LARGEST_UNSTORED else {}
    chunks = tuple(min(n, 512) for n in density.shape)
    dataset = f.create_dataset("density", data=density, chunks=chunks, fletcher32=True, **packed)
    dataset.attrs["long_name"] = "states in a cell, of all trajectories while they are inside"
    return dataset


def open_ensemble(path: str | os.PathLike[str]) -> EnsembleStatistics:
    """Read a file of an ensemble.

    Parameters
    ----------
    path
        The HDF5 file.

    Raises
    ------
    InputError
        If there is no such file, or it is no ensemble, or damaged.

    Examples
    --------
    >>> found = vp.rollout.open_ensemble("pendulum-ensemble.h5")  # doctest: +SKIP
    """
    path = as_path("path", path)
    with open_hdf5(path, FORMAT, FORMAT_VERSION) as root:
        system = read_system(root, path)
        plan = _read_plan(root, system, path)
        kind = root.text("method_kind")
        if kind not in _KINDS:
            raise InputError(f"{path}: 'method_kind' must be one of {', '.join(_KINDS)}")
        count = len(root.dataset("initial", (None, system.dim)))
        sizes = {"trajectory": count, "component": system.dim}
        found = read_variables(root, _VARIABLES, sizes)
        for name in ("left", "left_domain"):
            if (steps := found[name]) is not None:
                if not count or steps.min() < -1 or steps.max() > plan.steps:
                    raise InputError(f"{path}: '{name}' holds impossible steps")
                found[name] = steps.astype(np.int32)
        if plan.turning and (found["rotation"] is None or found["change"] is None):
            raise InputError(f"{path}: the rotation numbers are missing")
        density = root.array("density", (plan.rows, plan.columns), "i")
        if density.min() < 0:
            raise InputError(f"{path}: its numbers of states are impossible")
        return EnsembleStatistics(
            plan=plan,
            step=root.number("step", positive=True),
            name=root.text("method_name"),
            kind=kind,
            title=root.text("method_title"),
            seed=root.whole("seed", None),
            density=density,
            off=root.whole("off"),
            **found,
        )


def _read_plan(root: StoredGroup, system: System, path: Path) -> EnsemblePlan:
    where = f"{path}: the attribute 'plan'"
    stored, names = root.json("plan"), [*system.components]
    plane, view, cells = (stored.get(key) for key in ("plane", "view", "cells"))
    steps, rotation, words = stored.get("steps"), stored.get("rotation"), stored.get("escape")
    near, about = stored.get("near", 0.0), stored.get("about", "given")
    sound = (
        _is_list(plane, 2, str)
        and {*plane} <= {*names}
        and _is_list(view, 2, list)
        and all(_is_list(each, 2, int | float) for each in view)
        and all(-1e300 < low < high < 1e300 for low, high in view)
        and _is_list(cells, 2, int)
        and min(cells) >= 1
        and cells[0] * cells[1] <= MOST_CELLS
        and type(steps) is int
        and 1 <= steps < 2**31
        and isinstance(words, str)
        and isinstance(near, int | float)
        and abs(near) < 1e9
        and about in [*CENTRES]
        and (rotation is None or rotation in names or _is_list(rotation, 2, int | float))
    )
    if not sound:
        raise InputError(f"{where} does not say steps, plane, view, cells and what is outside")
    region = stored.get("region")
    domain = stored.get("domain", region)
    angle = names.index(rotation) if isinstance(rotation, str) else None
    if angle is not None and angle not in system.periods:
        raise InputError(f"{where}: {printable(str(rotation))} is no angle")
    return EnsemblePlan(
        system=system,
        steps=steps,
        pair=(names.index(plane[0]), names.index(plane[1])),
        view=tuple(tuple(map(float, each)) for each in view),  # type: ignore[arg-type]
        columns=cells[0],
        rows=cells[1],
        escape=Escape(
            None if region is not None or words == Escape().words else printable(words),
            None if region is None else Domain.from_text(json.dumps(region), where),
        ),
        turning=rotation is not None,
        centre=tuple(map(float, rotation)) if isinstance(rotation, list) else None,  # type: ignore[arg-type]
        angle=angle,
        about=about,
        near=float(near),
        domain=None if domain is None else Domain.from_text(json.dumps(domain), where),
    )


def _is_list(value: Any, length: int, kind: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == length
        and all(isinstance(x, kind) and not isinstance(x, bool) for x in value)
    )
