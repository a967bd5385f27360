"""Datasets from arrays, tables and pairs of states."""

from vpintegrator.data.importing.import_dataset import import_dataset, import_pairs

__all__ = ["import_dataset", "import_pairs"]
