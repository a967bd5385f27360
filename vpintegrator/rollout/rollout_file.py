"""Reading of rollout files: HDF5 that xarray, netCDF tools and h5py open.

Group ``reference`` and one group for each method hold ``state (trajectory, time, component)`` at
the stored times with their coordinates. A method's group also holds the measurements of its
diagnostics: arrays, and single numbers in its attributes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from vpintegrator.arguments import as_path, one_of
from vpintegrator.dynamics import Structure, System
from vpintegrator.dynamics.plot import check_section
from vpintegrator.dynamics.state_file import read_system
from vpintegrator.errors import InputError
from vpintegrator.maps.map import KINDS
from vpintegrator.measure.rows import OneStepTable
from vpintegrator.rollout.diagnostics import WorkPrecision
from vpintegrator.rollout.diagnostics.diagnostic import Diagnostic
from vpintegrator.rollout.diagnostics.registry import with_own
from vpintegrator.rollout.report import (
    COMPLETE,
    ERROR,
    FORMAT,
    FORMAT_VERSION,
    REFERENCE,
    STUDY,
    TEXTS,
    WORK_PRECISION,
    Report,
    Run,
    by_name,
)
from vpintegrator.rollout.variables import read_variables
from vpintegrator.storage.reading import StoredGroup, open_hdf5, reading


def open_rollout(
    path: str | os.PathLike[str], diagnostics: Sequence[type[Diagnostic]] = ()
) -> Report:
    """Read a rollout file.

    Parameters
    ----------
    path
        The HDF5 file, which vp-rollout or ``Report.save`` wrote.
    diagnostics
        Own diagnostics of the comparison, whose measurements are read, too.

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
    path = as_path("path", path)
    kinds = with_own(diagnostics)
    damage = (AttributeError, IndexError, KeyError, TypeError, ValueError)
    with open_hdf5(path, FORMAT, FORMAT_VERSION) as root, reading(str(path), damage):
        system = read_system(root, path)
        groups = {name: root.group(name) for name in root.json("methods", list)}
        times = groups[min(groups)].array("time", (None,))
        reference = root.group(REFERENCE).array("state", (None, None, system.dim))
        trajectories, known = reference.shape[:2]
        if not trajectories or not 1 <= known <= len(times):
            raise InputError(
                f"{path}: a reference of {trajectories} trajectories at {known} times does not fit "
                f"methods of {len(times)} times"
            )
        shape = (trajectories, len(times), system.dim)
        complete = read_system(root.group(COMPLETE), path) if COMPLETE in root else None
        whole = complete or system
        runs = {n: _read_run(n, group, whole, shape, kinds) for n, group in groups.items()}
        section = root.json("section", list, None)
        studies = [root.group(WORK_PRECISION)] if WORK_PRECISION in root else []
        return Report(
            system=system,
            step=root.number("step", positive=True),
            every=root.whole("every", least=1),
            times=times,
            reference=reference,
            reference_error=ERROR.read(root.group(REFERENCE), {"trajectory": trajectories}),
            threshold=root.number("threshold", finite=False),
            step_table=OneStepTable.from_text(root.text("step_table"), f"{path}: 'step_table'"),
            runs=by_name(runs, root.json("seeds", dict, {})),
            seed=root.whole("seed", None),
            section_plane=section and check_section(section, system.components, f"{path}: section"),
            work_precision={
                name: WorkPrecision(**read_variables(each.group(name), STUDY, {}))
                for each in studies
                for name in each.groups
            },
            diagnostics=kinds,
            complete=complete,
        )


def _read_run(
    name: str,
    group: StoredGroup,
    system: System,
    shape: Sequence[int],
    diagnostics: Sequence[type[Diagnostic]],
) -> Run:
    sizes = dict(zip(("trajectory", "time", "component"), shape, strict=True))
    variables = (variable for each in diagnostics for variable in each.variables)
    measurements = {each.name: each.read(group, sizes, system) for each in variables}
    texts: dict[str, Any] = {key: group.text(key) for key in TEXTS}
    one_of(f"{group}: the attribute 'kind'", texts["kind"], KINDS)
    return Run(
        name=name,
        **texts,
        window=group.whole("window", least=1),
        prediction_window=group.whole("prediction_window", least=1),
        machine_epsilon=group.number("machine_epsilon", positive=True),
        derivative_epsilon=group.number("derivative_epsilon", positive=True),
        order=group.whole("order", None),
        structure=Structure.from_text(group.text("structure"), f"{group}: 'structure'"),
        states=group.array("state", shape),
        measurements=measurements,
        is_complete=bool(group.whole("complete", 0)),
    )
