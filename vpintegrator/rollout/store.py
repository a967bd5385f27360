"""Rollouts as HDF5 files that xarray, netCDF tools and h5py open as they are.

Group ``reference`` and one group for each method hold ``state (trajectory, time, component)`` with
their coordinates; a method's group also ``log_determinant (trajectory, volume_time)``. Every
diagnostic but these determinants is computed from the states when the file is read.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import h5py
import numpy as np

from vpintegrator.dynamics import System
from vpintegrator.files import replacing
from vpintegrator.hdf5 import open_hdf5, write_header, write_states
from vpintegrator.rollout.report import Report, Run

FORMAT = "vpintegrator-rollout"
FORMAT_VERSION = 1
REFERENCE = "reference"


def save_rollout(report: Report, path: str | os.PathLike[str], overwrite: bool = False) -> None:
    """Write a report; see :meth:`Report.save`."""
    with replacing(path, overwrite) as temporary, h5py.File(temporary, "w", track_order=True) as f:
        write_header(f, FORMAT, FORMAT_VERSION, report.system, report.step)
        f.attrs["title"] = f"Rollout: {report.system.title}"
        f.attrs["methods"] = json.dumps(list(report.runs))
        if report.seed is not None:
            f.attrs["seed"] = report.seed
        group = f.create_group(REFERENCE, track_order=True)
        write_states(group, report.reference, report.times, report.system)
        error = group.create_dataset("estimated_error", data=report.reference_error)
        error.attrs["long_name"] = "estimate of the largest error in any component"
        error.dims[0].attach_scale(group["trajectory"])
        for name, run in report.runs.items():
            _write_run(f.create_group(name, track_order=True), run, report)


def _write_run(group: h5py.Group, run: Run, report: Report) -> None:
    group.attrs["kind"] = run.kind
    group.attrs["method"] = run.method
    group.attrs["title"] = run.title
    group.attrs["description"] = run.description
    if run.order is not None:
        group.attrs["order"] = run.order
    group.attrs["window"] = run.window
    group.attrs["prediction_window"] = run.prediction_window
    group.attrs["seconds_per_step_and_trajectory"] = run.seconds_per_step
    write_states(group, run.states, report.times, report.system)
    failed = group.create_dataset(
        "divergence_time",
        data=np.where(run.failures >= 0, report.times[run.failures], np.nan),
    )
    failed.attrs["long_name"] = "first time at which the trajectory is not finite"
    failed.dims[0].attach_scale(group["trajectory"])
    time = group.create_dataset("volume_time", data=report.times[run.volume_index])
    time.attrs["long_name"] = "time of the state or window at which the volume is measured"
    time.make_scale("volume_time")
    volume = group.create_dataset("log_determinant", data=run.log_determinant, fletcher32=False)
    volume.attrs["long_name"] = "log|det| of the derivative of the map of " + (
        "a state" if run.window == 1 else f"a window of {run.window} states"
    )
    volume.dims[0].attach_scale(group["trajectory"])
    volume.dims[1].attach_scale(time)


def open_rollout(path: str | os.PathLike[str]) -> Report:
    """Read a rollout file.

    Raises
    ------
    InputError
        If there is no such file, or it is not a rollout, or damaged.
    """
    path = Path(path)
    with open_hdf5(path, FORMAT, FORMAT_VERSION) as f:
        system = System(
            str(f.attrs["system"]),
            str(f.attrs["system_name"]),
            json.loads(f.attrs["parameters"]),
            source=f"system in {path}",
        )
        times = np.asarray(f[REFERENCE]["time"][...])
        return Report(
            system=system,
            step=float(f.attrs["step"]),
            times=times,
            reference=np.asarray(f[REFERENCE]["state"][...]),
            reference_error=np.asarray(f[REFERENCE]["estimated_error"][...]),
            runs={name: _read_run(name, f[name], times) for name in json.loads(f.attrs["methods"])},
            seed=int(f.attrs["seed"]) if "seed" in f.attrs else None,
        )


def _read_run(name: str, group: h5py.Group, times: np.ndarray) -> Run:
    return Run(
        name=name,
        kind=str(group.attrs["kind"]),
        method=str(group.attrs["method"]),
        title=str(group.attrs["title"]),
        description=str(group.attrs["description"]),
        order=int(group.attrs["order"]) if "order" in group.attrs else None,
        states=np.asarray(group["state"][...]),
        volume_index=np.searchsorted(times, group["volume_time"][...]),
        log_determinant=np.asarray(group["log_determinant"][...]),
        seconds_per_step=float(group.attrs["seconds_per_step_and_trajectory"]),
        window=int(group.attrs["window"]),
        prediction_window=int(group.attrs["prediction_window"]),
    )
