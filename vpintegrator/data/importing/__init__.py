"""Making a dataset of trajectories that were measured, or computed by other programs."""

from vpintegrator.data.importing.import_dataset import import_dataset

__all__ = ["import_dataset"]
