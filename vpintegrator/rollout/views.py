"""A comparison as tables and labelled arrays of pandas and xarray, for notebooks and scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vpintegrator.errors import InputError
from vpintegrator.rollout.diagnostics.invariants import series_names
from vpintegrator.rollout.results import Results

if TYPE_CHECKING:
    import pandas
    import xarray

_ALONG = ("run", "trajectory", "time")


def frame_of(table: Sequence[Mapping[str, Any]]) -> pandas.DataFrame:
    """Return the rows of a table as a data frame."""
    frame: pandas.DataFrame = _library("pandas").DataFrame(table)
    return frame


def dataset_of(report: Results) -> xarray.Dataset:
    """Return the dataset of :meth:`vpintegrator.rollout.Report.to_xarray`."""
    runs = list(report.runs.values())
    shape = (len(report.reference), len(report.times), report.system.dim)
    reference = np.full(shape, np.nan)
    reference[:, : report.reference.shape[1]] = report.reference
    variables: dict[str, Any] = {
        "state": ((*_ALONG, "component"), np.stack([run.states for run in runs])),
        "reference": ((*_ALONG[1:], "component"), reference),
        "error": (_ALONG, np.stack([run.error for run in runs])),
    }
    for name, series in series_names(report.system.invariants).items():
        errors = [run.invariants[name].error for run in runs]
        variables[f"invariant_{series}"] = _ALONG, np.stack(errors), {"invariant": name}
    coordinates = {
        "run": [run.name for run in runs],
        "kind": ("run", [run.kind for run in runs]),
        "time": report.times,
        "component": list(report.system.components),
    }
    about = {"system": report.system.name, "step": report.step, "every": report.every}
    about |= {f"parameter_{name}": value for name, value in report.system.parameters.items()}
    return _library("xarray").Dataset(variables, coordinates, about)


def _library(name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError:
        raise InputError(f"this needs {name}, which is not installed: pip install {name}") from None
