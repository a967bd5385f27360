"""Rollouts as HDF5 files that xarray, netCDF tools and h5py open as they are.

Group ``reference`` and one group for each method hold ``state (trajectory, time, component)`` at
the stored times with their coordinates. A method's group also holds what was measured at every step
in between, of the same shape without the component, and single numbers in its attributes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from vpintegrator.dynamics import System
from vpintegrator.dynamics.region import Departure, Region
from vpintegrator.dynamics.state_file import write_header, write_series, write_states
from vpintegrator.errors import InputError, printable
from vpintegrator.hdf5 import create_hdf5
from vpintegrator.reading import StoredGroup, open_hdf5
from vpintegrator.rollout.diagnostics import (
    DriftFit,
    InvariantError,
    Lyapunov,
    Section,
    WorkPrecision,
    series_names,
)
from vpintegrator.rollout.report import Report, Run, Volume

FORMAT = "vpintegrator-rollout"
FORMAT_VERSION = 2
REFERENCE = "reference"
WORK_PRECISION = "work-precision"
RESERVED = (REFERENCE, WORK_PRECISION)
_LARGEST = 1e300  # value of a component
_OPTIONAL = ("order", "symplecticity", "reversibility", "evaluations_per_step")


def save_rollout(report: Report, path: str | os.PathLike[str], overwrite: bool = False) -> None:
    """Write a report; see :meth:`Report.save`."""
    with create_hdf5(path, overwrite) as f:
        write_header(f, FORMAT, FORMAT_VERSION, report.system, report.step)
        f.attrs["title"] = f"Rollout: {printable(report.system.title)}"
        f.attrs["methods"] = json.dumps(list(report.runs))
        f.attrs["every"] = report.every
        f.attrs["threshold"] = report.threshold
        if report.seed is not None:
            f.attrs["seed"] = report.seed
        if report.section_plane is not None:
            f.attrs["section"] = json.dumps(report.section_plane)
        group = f.create_group(REFERENCE, track_order=True)
        times = report.times[: report.reference.shape[1]]
        write_states(group, report.reference, times, report.system)
        name = "estimate of the largest error in any component"
        _write(group, "estimated_error", report.reference_error, name, ("trajectory",))
        for name, run in report.runs.items():
            _write_run(f.create_group(name, track_order=True), run, report)
        if report.work_precision:
            parent = f.create_group(WORK_PRECISION, track_order=True)
            for name, study in report.work_precision.items():
                _write_study(parent.create_group(name, track_order=True), study)


def _write_run(group: h5py.Group, run: Run, report: Report) -> None:
    for key in ("kind", "method", "title", "description"):
        group.attrs[key] = printable(getattr(run, key))
    for key in ("window", "prediction_window"):
        group.attrs[key] = getattr(run, key)
    group.attrs["structure"] = json.dumps(run.structure)
    group.attrs["seconds_per_step_and_trajectory"] = run.seconds_per_step
    for key in _OPTIONAL:
        if getattr(run, key) is not None:
            group.attrs[key] = getattr(run, key)
    write_states(group, run.states, report.times, report.system)
    each = ("trajectory",)
    since = "since the stored time before"
    write_series(group, "error", run.error, f"largest distance from the reference {since}")
    mean = "root mean square error over all steps of the reference"
    _write(group, "root_mean_square_error", run.root_mean_square_error, mean, each)
    failure = "first time at which the trajectory is not finite"
    _write(group, "divergence_time", run.failure_time, failure, each)
    passed = "first time at which the error passes the threshold"
    _write(group, "threshold_time", run.threshold_time, passed, each)
    for name, key in series_names(run.invariants).items():
        record, word = run.invariants[name], printable(name)
        text = f"change of {word} {since}"
        change = write_series(group, f"invariant_{key}", record.error, text)
        change.attrs["kind"] = record.kind
        relative = f"1 where the change of {word} is relative, 0 where it is absolute"
        _write(group, f"relative_{key}", record.relative.astype(np.int8), relative, each)
        drift = f"drift of {word} per unit of time"
        _write(group, f"drift_{key}", record.drift.slope, drift, each)
        error = record.drift.standard_error
        _write(group, f"drift_error_{key}", error, f"standard error of the {drift}", each)
    for name, volume in run.volume.items():
        prefix = name.replace("-", "_")
        axes = (f"{prefix}_trajectory", f"{prefix}_time")
        _scale(group, axes[0], np.arange(len(volume.log_determinant)), "number of the trajectory")
        _scale(group, axes[1], volume.times, "time of the state or window")
        what = {
            "step": "map of a state" if run.window == 1 else f"map of {run.window} states",
            "phase-space": "map from the initial state",
        }[name]
        text = f"log|det| of the derivative of the {what}"
        _write(group, f"{prefix}_log_determinant", volume.log_determinant, text, axes)
    if run.departure is not None:
        group.attrs["region"] = run.departure.region.text
        left = "first time outside the states that the model was trained on"
        _write(group, "region_time", run.departure.time, left, each)
        quantities = np.arange(run.departure.excess.shape[1])
        _scale(group, "region_quantity", quantities, "component, then invariant, of the region")
        far = "largest distance from the range of the training states, in its widths"
        _write(group, "region_excess", run.departure.excess, far, ("trajectory", "region_quantity"))
    if run.lyapunov is not None:
        text, axis = "largest Lyapunov exponent", ("phase_space_trajectory",)
        _write(group, "lyapunov_exponent", run.lyapunov.exponent, text, axis)
        uncertainty = run.lyapunov.uncertainty
        _write(group, "lyapunov_uncertainty", uncertainty, f"uncertainty of the {text}", axis)
        group["lyapunov_exponent"].attrs["time"] = run.lyapunov.time
    if run.section is not None:
        crossing = ("crossing",)
        _scale(group, "crossing", np.arange(len(run.section.time)), "number of the crossing")
        text = "state on the Poincare section"
        _write(group, "section_state", run.section.points, text, ("crossing", "component"))
        _write(group, "section_time", run.section.time, "time of the crossing", crossing)
        _write(group, "section_trajectory", run.section.trajectory, "its trajectory", crossing)


def _write_study(group: h5py.Group, study: WorkPrecision) -> None:
    _scale(group, "step", study.step, "time step")
    cost = "and trajectory, for a unit of simulated time"
    _write(group, "seconds", study.seconds, f"seconds {cost}", ("step",))
    _write(group, "evaluations", study.evaluations, f"vector field evaluations {cost}", ("step",))
    if study.jacobian_evaluations is not None:
        text = f"Jacobian evaluations {cost}"
        _write(group, "jacobian_evaluations", study.jacobian_evaluations, text, ("step",))
    _write(group, "error", study.error, "root mean square error at the end", ("step",))
    if study.order is not None:
        group.attrs["order"] = study.order


def _scale(group: h5py.Group, name: str, values: Any, title: str) -> None:
    scale = group.create_dataset(name, data=np.asarray(values))
    scale.attrs["long_name"] = title
    scale.make_scale(name)


def _write(group: h5py.Group, name: str, values: Any, title: str, axes: Sequence[str]) -> None:
    dataset = group.create_dataset(name, data=np.asarray(values))
    dataset.attrs["long_name"] = title
    for dimension, axis in zip(dataset.dims, axes, strict=True):
        dimension.attach_scale(group[axis])


def open_rollout(path: str | os.PathLike[str]) -> Report:
    """Read a rollout file.

    Raises
    ------
    InputError
        If there is no such file, or it is not a rollout, or damaged: something in it is missing,
        of another kind, or does not fit the rest.
    """
    path = Path(path)
    with open_hdf5(path, FORMAT, FORMAT_VERSION, oldest=FORMAT_VERSION) as root:
        system = System(
            root.text("system"),
            root.text("system_name"),
            root.json("parameters"),
            source=f"system in {path}",
        )
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
        shape = (trajectories, len(times), system.dim)
        return Report(
            system=system,
            step=root.number("step", positive=True),
            every=root.whole("every", least=1),
            times=times,
            reference=states,
            reference_error=reference.array("estimated_error", (trajectories,)),
            threshold=root.number("threshold", finite=False),
            runs={name: _read_run(name, root.group(name), system, shape) for name in methods},
            seed=root.whole("seed", None),
            section_plane=_read_plane(root, system, path),
            work_precision=_read_studies(root, methods),
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


def _read_run(name: str, group: StoredGroup, system: System, shape: tuple[int, int, int]) -> Run:
    """A method's group; ``shape`` is (trajectory, time, dim)."""
    each, series = shape[:1], shape[:2]
    kind = group.text("kind")
    if kind not in ("learned", "classical"):
        raise InputError(f"{group}: the attribute 'kind' must be learned or classical")
    structure = group.json("structure", list)
    if not all(isinstance(trait, str) for trait in structure):
        raise InputError(f"{group}: the attribute 'structure' must be a list of words")
    window = group.whole("window", least=1)
    return Run(
        name=name,
        kind=kind,
        method=group.text("method"),
        title=group.text("title"),
        description=group.text("description"),
        order=group.whole("order", None),
        structure=tuple(structure),
        window=window,
        prediction_window=group.whole("prediction_window", least=1),
        states=group.array("state", shape),
        error=group.array("error", series),
        root_mean_square_error=group.array("root_mean_square_error", each),
        invariants={
            name: InvariantError(
                error=group.array(f"invariant_{key}", series),
                relative=group.array(f"relative_{key}", each, "i").astype(bool),
                drift=DriftFit(
                    group.array(f"drift_{key}", each), group.array(f"drift_error_{key}", each)
                ),
            )
            for name, key in series_names(system.invariants).items()
        },
        failure_time=group.array("divergence_time", each),
        threshold_time=group.array("threshold_time", each),
        volume=_read_volumes(group),
        section=_read_section(group, shape),
        symplecticity=group.number("symplecticity", None, finite=False),
        reversibility=group.number("reversibility", None, finite=False),
        lyapunov=_read_lyapunov(group),
        seconds_per_step=group.number("seconds_per_step_and_trajectory", finite=False),
        evaluations_per_step=group.number("evaluations_per_step", None, finite=False),
        departure=_read_departure(group, shape[0]),
    )


def _read_volumes(group: StoredGroup) -> dict[str, Volume]:
    volumes = {}
    for key in ("step", "phase-space"):
        prefix = key.replace("-", "_")
        if f"{prefix}_log_determinant" in group:
            times = group.array(f"{prefix}_time", (None,))
            values = group.array(f"{prefix}_log_determinant", (None, len(times)))
            if not len(values):
                raise InputError(f"{group}: the {key} volume is that of no trajectory")
            volumes[key] = Volume(times, values)
    return volumes


def _read_departure(group: StoredGroup, trajectories: int) -> Departure | None:
    if not group.has("region"):
        return None
    region = Region.from_text(group.text("region"), f"{group}: the attribute 'region'")
    return Departure(
        region,
        group.array("region_time", (trajectories,)),
        group.array("region_excess", (trajectories, len(region.names))),
    )


def _read_lyapunov(group: StoredGroup) -> Lyapunov | None:
    if "lyapunov_exponent" not in group:
        return None
    exponent = group.array("lyapunov_exponent", (None,))
    return Lyapunov(
        exponent,
        group.array("lyapunov_uncertainty", exponent.shape),
        group.labelled("lyapunov_exponent").number("time"),
    )


def _read_section(group: StoredGroup, shape: tuple[int, int, int]) -> Section | None:
    if "crossing" not in group:
        return None
    points = group.array("section_state", (None, shape[2]))
    trajectory = group.array("section_trajectory", points.shape[:1], "i")
    if len(points) and (trajectory.min() < 0 or trajectory.max() >= shape[0]):
        raise InputError(f"{group}: the section has points of trajectories that are not there")
    return Section(points, trajectory, group.array("section_time", points.shape[:1]))


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
