"""Making a dataset of trajectories that were measured, or computed by other programs."""

from vpintegrator.data.importing.import_dataset import import_dataset
from vpintegrator.data.importing.pairs import import_pairs

__all__ = ["import_dataset", "import_pairs"]
