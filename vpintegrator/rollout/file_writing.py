"""Writing of rollouts as HDF5 files that xarray, netCDF tools and h5py open.

Group ``reference`` and one group for each method hold ``state (trajectory, time, component)`` at
the stored times with their coordinates. A method's group also holds what its diagnostics measured:
arrays, and single numbers in its attributes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence

import h5py

from vpintegrator.dynamics.state_file import write_header, write_states
from vpintegrator.errors import printable
from vpintegrator.rollout.diagnostics import WorkPrecision
from vpintegrator.rollout.diagnostics.diagnostic import Diagnostic
from vpintegrator.rollout.results import Results, Run
from vpintegrator.rollout.variables import TRAJECTORY, Variable
from vpintegrator.storage.hdf5 import create_hdf5

FORMAT = "vpintegrator-rollout"
FORMAT_VERSION = 2
REFERENCE = "reference"
WORK_PRECISION = "work-precision"
RESERVED = (REFERENCE, WORK_PRECISION)


def write_rollout(
    report: Results,
    diagnostics: Sequence[Diagnostic],
    path: str | os.PathLike[str],
    overwrite: bool = False,
) -> None:
    """Write a report with the measurements of its diagnostics; see :meth:`Report.save`."""
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
        title, error = "estimate of the largest error in any component", report.reference_error
        Variable("estimated_error", title, TRAJECTORY, values=error).write(group)
        for name, run in report.runs.items():
            group = f.create_group(name, track_order=True)
            _write_method(group, run)
            write_states(group, run.states, report.times, report.system)
            for diagnostic in diagnostics:
                for variable in diagnostic.stored(run):
                    variable.write(group)
        if report.work_precision:
            parent = f.create_group(WORK_PRECISION, track_order=True)
            for name, study in report.work_precision.items():
                group = parent.create_group(name, track_order=True)
                for variable in _of_study(study):
                    variable.write(group)


def _write_method(group: h5py.Group, run: Run) -> None:
    for key in ("kind", "method", "title", "description"):
        group.attrs[key] = printable(getattr(run, key))
    for key in ("window", "prediction_window"):
        group.attrs[key] = getattr(run, key)
    group.attrs["structure"] = json.dumps(run.structure)
    if run.order is not None:
        group.attrs["order"] = run.order


def _of_study(study: WorkPrecision) -> Iterator[Variable]:
    cost, dims = "and trajectory, for a unit of simulated time", ("step",)
    titles = {
        "step": "time step",
        "seconds": f"seconds {cost}",
        "evaluations": f"vector field evaluations {cost}",
        "jacobian_evaluations": f"Jacobian evaluations {cost}",
        "error": "root mean square error at the end",
    }
    for name, title in titles.items():
        if getattr(study, name) is not None:
            yield Variable(name, title, dims, values=getattr(study, name))
    if study.order is not None:
        yield Variable("order", "order of accuracy", values=study.order)
