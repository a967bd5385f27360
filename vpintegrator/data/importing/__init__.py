"""Datasets from arrays, tables and pairs of states."""

from vpintegrator.data.importing.import_dataset import import_dataset
from vpintegrator.data.importing.pairs import import_pairs

__all__ = ["import_dataset", "import_pairs"]
