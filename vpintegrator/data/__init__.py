"""The data module: recipes, generation of trajectories with SciPy, HDF5 files, windows."""

from vpintegrator.data.generate import generate
from vpintegrator.data.recipe import Recipe, list_recipes, load_recipe
from vpintegrator.data.store import Dataset, open_dataset
from vpintegrator.data.windows import windows

__all__ = [
    "Dataset",
    "Recipe",
    "generate",
    "list_recipes",
    "load_recipe",
    "open_dataset",
    "windows",
]
