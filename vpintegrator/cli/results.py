"""Results of the commands in the form that ``--json`` writes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vpintegrator.data import Dataset
    from vpintegrator.dynamics import System
    from vpintegrator.models import Model
    from vpintegrator.rollout import Report


# metadata that results hold as they are read
_READ = ("system", "training", "region", "one_step")


def system_results(system: System) -> dict[str, Any]:
    """Return the properties of a system."""
    return {
        "name": system.name,
        "title": system.title,
        "components": list(system.components),
        "parameters": dict(system.parameters),
        "structure": system.kind,
        "time": system.time,
        "period": system.period,
        "invariants": list(system.invariants),
        "reversing_symmetries": len(system.reversing_symmetries),
        "periodic": {system.components[i]: period for i, period in system.periods.items()},
        "chart": dict(zip(system.chart.components, system.chart.texts, strict=True))
        if system.chart
        else None,
        "defaults": dict(system.defaults),
        "text": system.text,
    }


def dataset_results(dataset: Dataset) -> dict[str, Any]:
    """Return the properties of a dataset, without its states."""
    return {
        "title": dataset.title,
        "system": dataset.system.name,
        "parameters": dict(dataset.parameters),
        "components": list(dataset.system.components),
        "step": list(dataset.varied["step"]) if "step" in dataset.varied else dataset.step,
        "varied": {name: list(bounds) for name, bounds in dataset.varied.items()},
        "seed": dataset.seed,
        "shapes": {name: list(shape) for name, shape in dataset.shapes.items()},
        "accuracy": dict(dataset.accuracy),
        "complete": dataset.is_complete,
        "fingerprint": dataset.fingerprint,
    }


def model_results(model: Model) -> dict[str, Any]:
    """Return the properties of a model; values of its training are the strings of its metadata."""
    from vpintegrator.storage.reading import read_json

    return {
        "model": model.name,
        "arguments": dict(model.arguments),
        "parameters": sum(p.numel() for p in model.parameters()),
        "form": model.structure.form,
        "measure_preserving": model.measure_preserving,
        "reversing_symmetries": len(model.reversing_symmetries),
        "region": read_json(model.metadata.get("region", "{}"), "the region of training"),
        "one_step": read_json(model.metadata.get("one_step", "{}"), "the table of one step"),
        "metadata": {k: v for k, v in model.metadata.items() if k not in _READ},
    }


def rollout_results(report: Report) -> dict[str, Any]:
    """Return the table with every number, and its title."""
    return {
        "system": report.system.name,
        "parameters": dict(report.system.parameters),
        "step": report.step,
        "time": report.times[-1],
        "orbits": len(report.reference),
        "seed": report.seed,
        "reference_time": report.reference_time,
        "reference_error": report.reference_error.max(),
        "threshold": report.threshold,
        "table": report.table(),
        "one_step": json.loads(report.step_table.text),
    }
