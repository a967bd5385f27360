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
from vpintegrator.errors import printable
from vpintegrator.files import replacing
from vpintegrator.hdf5 import create_series, write_header, write_states
from vpintegrator.rollout.diagnostics import (
    DriftFit,
    InvariantError,
    Lyapunov,
    Section,
    WorkPrecision,
    series_names,
)
from vpintegrator.rollout.report import Report, Run, Volume
from vpintegrator.stored import open_hdf5, reading

FORMAT = "vpintegrator-rollout"
FORMAT_VERSION = 2
REFERENCE = "reference"
WORK_PRECISION = "work-precision"
RESERVED = (REFERENCE, WORK_PRECISION)
_OPTIONAL = ("order", "symplecticity", "reversibility", "evaluations_per_step")


def save_rollout(report: Report, path: str | os.PathLike[str], overwrite: bool = False) -> None:
    """Write a report; see :meth:`Report.save`."""
    with replacing(path, overwrite) as temporary, h5py.File(temporary, "w", track_order=True) as f:
        write_header(f, FORMAT, FORMAT_VERSION, report.system, report.step)
        f.attrs["title"] = f"Rollout: {report.system.title}"
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
    for key in ("kind", "method", "title", "description", "window", "prediction_window"):
        group.attrs[key] = getattr(run, key)
    group.attrs["structure"] = json.dumps(run.structure)
    group.attrs["seconds_per_step_and_trajectory"] = run.seconds_per_step
    for key in _OPTIONAL:
        if getattr(run, key) is not None:
            group.attrs[key] = getattr(run, key)
    write_states(group, run.states, report.times, report.system)
    each = ("trajectory",)
    since = "since the stored time before"
    create_series(group, "error", run.error, f"largest distance from the reference {since}")
    mean = "root mean square error over all steps of the reference"
    _write(group, "root_mean_square_error", run.root_mean_square_error, mean, each)
    failure = "first time at which the trajectory is not finite"
    _write(group, "divergence_time", run.failure_time, failure, each)
    passed = "first time at which the error passes the threshold"
    _write(group, "threshold_time", run.threshold_time, passed, each)
    for name, key in series_names(run.invariants).items():
        record, word = run.invariants[name], printable(name)
        text = f"change of {word} {since}"
        change = create_series(group, f"invariant_{key}", record.error, text)
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
        If there is no such file, or it is not a rollout, or damaged.
    """
    path = Path(path)
    with (
        open_hdf5(path, FORMAT, FORMAT_VERSION, oldest=FORMAT_VERSION) as root,
        reading(str(path), (KeyError, OSError)),
    ):
        f = root.raw
        system = System(
            str(f.attrs["system"]),
            str(f.attrs["system_name"]),
            json.loads(f.attrs["parameters"]),
            source=f"system in {path}",
        )
        methods = json.loads(f.attrs["methods"])
        plane = json.loads(f.attrs["section"]) if "section" in f.attrs else None
        studies = f.get(WORK_PRECISION, {})
        return Report(
            system=system,
            step=float(f.attrs["step"]),
            every=int(f.attrs["every"]),
            times=f[methods[0]]["time"][...],
            reference=f[REFERENCE]["state"][...],
            reference_error=f[REFERENCE]["estimated_error"][...],
            threshold=float(f.attrs["threshold"]),
            runs={name: _read_run(name, f[name], system) for name in methods},
            seed=int(f.attrs["seed"]) if "seed" in f.attrs else None,
            section_plane=None if plane is None else (plane[0], plane[1], plane[2]),
            work_precision={name: _read_study(studies[name]) for name in studies},
        )


def _read_run(name: str, group: h5py.Group, system: System) -> Run:
    attributes = group.attrs
    volume = {}
    for key in ("step", "phase-space"):
        prefix = key.replace("-", "_")
        if f"{prefix}_log_determinant" in group:
            values = group[f"{prefix}_log_determinant"][...]
            volume[key] = Volume(group[f"{prefix}_time"][...], values)
    lyapunov = section = None
    if "lyapunov_exponent" in group:
        exponent = group["lyapunov_exponent"]
        uncertainty = group["lyapunov_uncertainty"][...]
        lyapunov = Lyapunov(exponent[...], uncertainty, float(exponent.attrs["time"]))
    if "crossing" in group:
        keys = ("section_state", "section_trajectory", "section_time")
        section = Section(*(group[key][...] for key in keys))
    return Run(
        name=name,
        kind=str(attributes["kind"]),
        method=str(attributes["method"]),
        title=str(attributes["title"]),
        description=str(attributes["description"]),
        order=int(attributes["order"]) if "order" in attributes else None,
        structure=tuple(json.loads(attributes["structure"])),
        window=int(attributes["window"]),
        prediction_window=int(attributes["prediction_window"]),
        states=group["state"][...],
        error=group["error"][...],
        root_mean_square_error=group["root_mean_square_error"][...],
        invariants={
            name: InvariantError(
                error=group[f"invariant_{key}"][...],
                relative=group[f"relative_{key}"][...].astype(bool),
                drift=DriftFit(group[f"drift_{key}"][...], group[f"drift_error_{key}"][...]),
            )
            for name, key in series_names(system.invariants).items()
        },
        failure_time=group["divergence_time"][...],
        threshold_time=group["threshold_time"][...],
        volume=volume,
        section=section,
        symplecticity=_number(attributes, "symplecticity"),
        reversibility=_number(attributes, "reversibility"),
        lyapunov=lyapunov,
        seconds_per_step=float(attributes["seconds_per_step_and_trajectory"]),
        evaluations_per_step=_number(attributes, "evaluations_per_step"),
    )


def _read_study(group: h5py.Group) -> WorkPrecision:
    keys = ("step", "seconds", "evaluations", "jacobian_evaluations", "error")
    values = {key: group[key][...] for key in keys if key in group}
    return WorkPrecision(**values, order=_number(group.attrs, "order"))


def _number(attributes: Any, key: str) -> float | None:
    return float(attributes[key]) if key in attributes else None
