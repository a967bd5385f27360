"""vp-gen --from: a dataset of trajectories that others measured or computed."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from vpintegrator.cli.recipe_options import read_fractions, read_numbers
from vpintegrator.cli.reporting import report_imported
from vpintegrator.data import import_dataset
from vpintegrator.errors import InputError

_OPTIONS = (
    *("step", "seed", "split", "fractions", "variable", "system", "missing", "title"),
    *("decimal", "columns", "fit", "noise", "resample"),
)


def import_file(
    source: Path,
    output: Path | None,
    overwrite: bool,
    parameters: dict[str, Any],
    options: dict[str, Any],
) -> None:
    """Make a dataset of a file of arrays, and say what is in it."""
    for key in options:
        if key not in _OPTIONS:
            raise InputError(f"--{key.replace('_', '-')} is not for --from, which computes nothing")
    if "fractions" in options:
        options = {**options, "fractions": read_fractions(options["fractions"])}
    if "noise" in options:
        if "system" not in options:
            raise InputError("--noise is not for --from without --system: states stay as they are")
        options = {**options, "noise": read_numbers(options["noise"], "noise")}
    for key in ("columns", "fit"):
        if key in options:
            options = {**options, key: [name.strip() for name in options[key].split(",")]}
    # never the name of the file itself
    stem = Path(source.stem).stem if source.suffix.lower() == ".gz" else source.stem
    path = output or Path(f"{stem}{'-dataset' if source.suffix == '.h5' else ''}.h5")
    if path.exists() and source.exists() and path.samefile(source):
        raise InputError(f"{path} is the file that is read; give another name with -o")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the report says it
        dataset = import_dataset(
            source, path, parameters=parameters, overwrite=overwrite, **options
        )
    report_imported(dataset)
