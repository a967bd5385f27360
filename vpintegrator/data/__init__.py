"""The data module: recipes, generation of trajectories with SciPy, HDF5 files, windows."""

from vpintegrator.catalogue import list_recipes
from vpintegrator.data.dataset import Dataset, open_dataset
from vpintegrator.data.generation import generate
from vpintegrator.data.importing import import_dataset
from vpintegrator.data.observation import Observation
from vpintegrator.data.part import DatasetPart
from vpintegrator.data.recipe import Recipe, load_recipe
from vpintegrator.data.split import Split
from vpintegrator.data.variation import Variation
from vpintegrator.data.windows import windows

__all__ = [
    "Dataset",
    "DatasetPart",
    "Observation",
    "Recipe",
    "Split",
    "Variation",
    "generate",
    "import_dataset",
    "list_recipes",
    "load_recipe",
    "open_dataset",
    "windows",
]
