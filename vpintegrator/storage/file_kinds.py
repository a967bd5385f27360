"""Kinds of files, and the command for each."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import NamedTuple

from vpintegrator.errors import printable

LARGEST_HEADER = 1 << 24  # bytes of JSON before tensors
_START = 1 << 16  # bytes of a TOML file in which its first keys are


class FileKind(NamedTuple):
    """Kind of a file: its name with an article, and a hint on its use with ``{0}`` for the path."""

    name: str
    use: str


_ARRAYS = "make a dataset of it with: vp-import {0}"
KINDS = {
    "dataset": FileKind("a dataset", "train a model on it with: vp-train {0}"),
    "model": FileKind("a model", "compare it with: vp-rollout {0}"),
    "checkpoint": FileKind(
        "the checkpoint of a training", "give it to the training as vp.train(checkpoint=...)"
    ),
    "rollout": FileKind("a rollout", "draw it with: vp-plot {0}"),
    "shard-1": FileKind("one part of a dataset", "give the file of the whole dataset"),
    "system": FileKind("a description of a system", "make a dataset of it with: vp-gen {0}"),
    "recipe": FileKind("a recipe of a dataset", "make the dataset with: vp-gen {0}"),
    "arrays": FileKind("a file of arrays", _ARRAYS),
    "hdf5": FileKind("an HDF5 file of another program", _ARRAYS),
    "safetensors": FileKind(
        "a safetensors file of another program", "models of this package come from vp-train"
    ),
}
_ARRAY_SUFFIXES = (".csv", ".tsv", ".npz", ".npy", ".nc", ".mat", ".gz")
_KEYS = {"recipe": rb"^\s*(system\s*=|\[system\])", "system": rb"^\s*(state|hamiltonian)\s*="}


def kind_of_format(name: str) -> str | None:
    """Return the kind that the attribute ``format`` of a file of this package names.

    Parameters
    ----------
    name
        Value of the attribute, such as ``vpintegrator-dataset``.
    """
    kind = name.removeprefix("vpintegrator-")
    return kind if kind in KINDS and kind != name else None


def kind_of_plain(path: str | os.PathLike[str]) -> str | None:
    """Return the kind of a file that is no HDF5 file, a key of ``KINDS``, or None if unknown."""
    path = Path(path)
    with path.open("rb") as stream:
        start = stream.read(_START)
        size = int.from_bytes(start[:8], "little")
        header = start[8:] + stream.read(size) if 2 <= size <= LARGEST_HEADER else b""
    if path.suffix == ".toml":
        return next((kind for kind, key in _KEYS.items() if re.search(key, start, re.M)), None)
    try:
        metadata = json.loads(header[:size]).get("__metadata__", {})
        return kind_of_format(str(metadata.get("format", ""))) or "safetensors"
    except (ValueError, RecursionError, AttributeError):
        return "arrays" if path.suffix.lower() in _ARRAY_SUFFIXES else None


def refusal(path: str | os.PathLike[str], kind: str, expected: str) -> str:
    """Return the sentence that says what a file is, what was expected, and how to use the file."""
    name, use = KINDS[kind]
    return f"{path} is {name}, not {expected}; {use.format(printable(str(path)))}"
