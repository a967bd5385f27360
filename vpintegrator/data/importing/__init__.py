"""Datasets from arrays, tables and pairs of states."""

from vpintegrator.data.importing.import_dataset import import_dataset

__all__ = ["import_dataset"]
