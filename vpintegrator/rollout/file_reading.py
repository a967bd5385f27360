"""Reading of rollout files, with a check of all contents."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from vpintegrator.arguments import as_path
from vpintegrator.dynamics import System
from vpintegrator.dynamics.state_file import read_system
from vpintegrator.errors import InputError, printable
from vpintegrator.rollout.diagnostics import WorkPrecision
from vpintegrator.rollout.diagnostics.diagnostic import Diagnostic
from vpintegrator.rollout.diagnostics.registry import with_own
from vpintegrator.rollout.file_writing import (
    FORMAT,
    FORMAT_VERSION,
    REFERENCE,
    RESERVED,
    WORK_PRECISION,
)
from vpintegrator.rollout.report import Report
from vpintegrator.rollout.results import Run
from vpintegrator.storage.reading import StoredGroup, open_hdf5

_LARGEST = 1e300  # value of a component
_COORDINATES = {"state", "trajectory", "time", "component", "unit"}


def open_rollout(path: str | os.PathLike[str], diagnostics: Sequence[Diagnostic] = ()) -> Report:
    """Read a rollout file.

    Parameters
    ----------
    path
        The HDF5 file, which vp-rollout or ``Report.save`` wrote.
    diagnostics
        Own diagnostics of the comparison. Without them the names of their measurements are in
        ``unknown`` of each run.

    Raises
    ------
    InputError
        If there is no such file, or it is not a rollout, or damaged: something in it is missing,
        of another kind, or does not fit the rest.

    Examples
    --------
    >>> report = vp.compare(None, "rk4", system="pendulum", step=0.1, steps=5)
    >>> report.save("pendulum-rollout.h5", overwrite=True)
    >>> vp.open_rollout("pendulum-rollout.h5").runs.keys()
    dict_keys(['rk4'])
    """
    path, known_here = as_path("path", path), with_own(diagnostics)
    with open_hdf5(path, FORMAT, FORMAT_VERSION, oldest=FORMAT_VERSION) as root:
        system = read_system(root, path)
        methods = _read_methods(root, path)
        times = _read_times(root.group(methods[0]), path)
        reference = root.group(REFERENCE)
        states = reference.array("state", (None, None, system.dim))
        trajectories, known = states.shape[:2]
        if not trajectories or not 1 <= known <= len(times):
            raise InputError(
                f"{path}: a reference of {trajectories} trajectories at {known} times does not fit "
                f"methods of {len(times)} times"
            )
        sizes = {"trajectory": trajectories, "time": len(times), "component": system.dim}
        return Report(
            system=system,
            step=root.number("step", positive=True),
            every=root.whole("every", least=1),
            times=times,
            reference=states,
            reference_error=reference.array("estimated_error", (trajectories,)),
            threshold=root.number("threshold", finite=False),
            runs={
                name: _read_run(name, root.group(name), system, sizes, known_here)
                for name in methods
            },
            seed=root.whole("seed", None),
            section_plane=_read_plane(root, system, path),
            work_precision=_read_studies(root, methods),
            diagnostics=known_here,
        )


def _read_methods(root: StoredGroup, path: Path) -> list[str]:
    methods = root.json("methods", list)
    known = set(root.groups) - {*RESERVED}
    if not methods or not all(isinstance(name, str) and name in known for name in methods):
        raise InputError(f"{path}: the attribute 'methods' must name groups of the file")
    if len(set(methods)) < len(methods):
        raise InputError(f"{path}: the attribute 'methods' names a group twice")
    return list(methods)


def _read_times(group: StoredGroup, path: Path) -> np.ndarray:
    times = group.array("time", (None,))
    if not len(times) or not np.isfinite(times).all() or (np.diff(times) <= 0).any():
        raise InputError(f"{path}: the times must be numbers that increase")
    return times


def _read_plane(root: StoredGroup, system: System, path: Path) -> tuple[str, float, int] | None:
    plane = root.json("section", list, None)
    if plane is None:
        return None
    if (
        len(plane) != 3
        or plane[0] not in system.components
        or not isinstance(plane[1], int | float)
        or not -_LARGEST < plane[1] < _LARGEST
        or plane[2] not in (-1, 0, 1)
    ):
        raise InputError(
            f"{path}: the attribute 'section' must be a component, its value and a direction"
        )
    return plane[0], float(plane[1]), int(plane[2])


def _read_run(
    name: str,
    group: StoredGroup,
    system: System,
    sizes: Mapping[str, int],
    diagnostics: Sequence[Diagnostic],
) -> Run:
    """Read a method's group, with the names of measurements that no diagnostic knows."""
    kind = group.text("kind")
    if kind not in ("learned", "classical"):
        raise InputError(f"{group}: the attribute 'kind' must be learned or classical")
    structure = group.json("structure", list)
    if not all(isinstance(trait, str) for trait in structure):
        raise InputError(f"{group}: the attribute 'structure' must be a list of words")
    measurements: dict[str, Any] = {}
    for diagnostic in diagnostics:
        measurements |= diagnostic.read(group, system, sizes)
    run = Run(
        name=name,
        kind=kind,
        method=group.text("method"),
        title=group.text("title"),
        description=group.text("description"),
        order=group.whole("order", None),
        structure=tuple(structure),
        window=group.whole("window", least=1),
        prediction_window=group.whole("prediction_window", least=1),
        states=group.array("state", tuple(sizes.values())),
        measurements=measurements,
    )
    known = {variable.key for each in diagnostics for variable in each.stored(run)}
    unknown = set(group.names) - known - _COORDINATES
    return replace(run, unknown=tuple(map(printable, sorted(unknown))))


def _read_studies(root: StoredGroup, methods: Sequence[str]) -> dict[str, WorkPrecision]:
    if WORK_PRECISION not in root:
        return {}
    parent = root.group(WORK_PRECISION)
    unknown = set(parent.groups) - {*methods}
    if unknown:
        raise InputError(f"{parent}: '{printable(min(unknown))}' is none of the methods")
    return {name: _read_study(parent.group(name)) for name in parent.groups}


def _read_study(group: StoredGroup) -> WorkPrecision:
    step = group.array("step", (None,))
    if not len(step):
        raise InputError(f"{group}: there are no steps")
    keys = ["seconds", "evaluations", "error"]
    if "jacobian_evaluations" in group:
        keys.append("jacobian_evaluations")
    values = {key: group.array(key, step.shape) for key in keys}
    return WorkPrecision(step=step, **values, order=group.number("order", None, finite=False))
