"""Catalogue of systems and datasets: their TOML files."""

from __future__ import annotations

import importlib.resources
from typing import Any

SYSTEMS = "vpintegrator.systems"
DATASETS = "vpintegrator.datasets"


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
