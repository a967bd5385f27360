"""Catalogue of systems and datasets: their TOML files and summaries.

Nothing is derived or checked here, and neither SymPy nor SciPy is imported, so that a list of the
catalogue appears at once; a test sees to it that the files tell the truth.
"""

from __future__ import annotations

import ast
import importlib.resources
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vpintegrator.errors import InputError
from vpintegrator.storage.toml import read_toml

SYSTEMS, DATASETS = "vpintegrator.systems", "vpintegrator.datasets"


def catalogue(package: str) -> dict[str, Any]:
    """Return the TOML files of an installed folder of data, by name without suffix, in order."""
    files = importlib.resources.files(package)
    return {
        entry.name.removesuffix(".toml"): entry
        for entry in sorted(files.iterdir(), key=lambda entry: entry.name)
        if entry.name.endswith(".toml")
    }


def list_systems() -> list[str]:
    """Return the names of the systems in the catalogue.

    Examples
    --------
    >>> vp.list_systems()[:3]
    ['abc-flow', 'advection', 'charged-particle']
    """
    return list(catalogue(SYSTEMS))


def list_recipes() -> list[str]:
    """Return the names of the dataset recipes in the catalogue.

    Examples
    --------
    >>> vp.list_recipes()[:2]
    ['abc-flow', 'coupled-oscillators']
    """
    return list(catalogue(DATASETS))


@dataclass(frozen=True)
class SystemSummary:
    """Summary of a system in the list of the catalogue.

    Attributes
    ----------
    name, title, subject
        Entries of the same names in the system file.
    dim
        Number of components, with the parameters of the file.
    size
        Names of the parameters that set the number of components.
    kind
        Kind of system, :attr:`vpintegrator.dynamics.System.kind`.
    """

    name: str
    title: str
    subject: str
    dim: int
    size: str
    kind: str


@dataclass(frozen=True)
class RecipeSummary:
    """Summary of a dataset in the list of the catalogue.

    Attributes
    ----------
    name, title, steps, step
        Entries of the same names in the recipe file.
    count
        Number of trajectories of all groups together.
    """

    name: str
    title: str
    count: int
    steps: int
    step: float


def system_summaries() -> list[SystemSummary]:
    """Return all systems of the catalogue, by subject."""
    result = []
    for name, table in _tables(SYSTEMS):
        parameters = table.get("parameters", {})
        texts = table["state"].values() if isinstance(table["state"], Mapping) else []
        lengths = [ast.parse(str(text), mode="eval").body for text in texts]
        dim = sum(_length(length, parameters) for length in lengths)
        nodes = [node for length in lengths for node in ast.walk(length)]
        named = {node.id for node in nodes if isinstance(node, ast.Name)}
        size = ", ".join(key for key in parameters if key in named)
        if "hamiltonian" in table:
            kind = "Hamiltonian"
        elif "map" in table:
            claims = {"symplectic": "symplectic map", "divergence_free": "volume-preserving map"}
            kind = next((name for key, name in claims.items() if table.get(key)), "map")
        else:
            free = table.get("divergence_free", False)
            kind = "divergence-free" if free else "not divergence-free"
        title, subject = table["title"], table["subject"]
        components = (dim or len(table["state"])) + ("time" in table)
        result.append(SystemSummary(name, title, subject, components, size, kind))
    return sorted(result, key=lambda summary: (summary.subject, summary.name))


def recipe_summaries() -> list[RecipeSummary]:
    """Return all datasets of the catalogue, by name."""
    return [
        RecipeSummary(
            name,
            table["title"],
            sum(table["trajectories"].values()),
            table["steps"],
            table["step"],
        )
        for name, table in _tables(DATASETS)
    ]


def _tables(package: str) -> list[tuple[str, dict[str, Any]]]:
    return [
        (name, read_toml(entry.read_text(encoding="utf-8"), name))
        for name, entry in catalogue(package).items()
    ]


def _length(node: ast.expr, parameters: Mapping[str, Any]) -> int:
    """Evaluate the length of an array: n, 2*len(m), n - 1."""
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.Name(id=name):
            return int(parameters[name])
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)]):
            return len(parameters[name])
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() as operation, right=right):
            a, b = _length(left, parameters), _length(right, parameters)
            if isinstance(operation, ast.Mult):
                return a * b
            return a + b if isinstance(operation, ast.Add) else a - b
    raise InputError(f"the catalogue cannot tell the length {ast.unparse(node)}")
