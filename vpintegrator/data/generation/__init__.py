"""Making a dataset from a recipe: in one process or many, in shards where it is large."""

from vpintegrator.data.generation.generate import generate

__all__ = ["generate"]
