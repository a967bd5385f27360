"""Import in vp-gen (--from): datasets of measured or computed trajectories."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vpintegrator.cli.common import Options, read_fractions
from vpintegrator.errors import InputError
from vpintegrator.names import FORMS

if TYPE_CHECKING:
    from vpintegrator.data import Dataset

OPTIONS = Options(
    click.option(
        "--variable", metavar="NAME,...", help="With --from: arrays or columns of the states."
    ),
    click.option(
        "--system",
        metavar="SYSTEM|FILE.toml|MODULE:NAME",
        help="With --from: the system behind them.",
    ),
    click.option(
        "--parameter-columns",
        metavar="NAME,...",
        help="With --from: columns or arrays that are parameters, constant in each run.",
    ),
    click.option(
        "--columns",
        metavar="NAME,...",
        help="With --from: names of all columns of a text table, as in time,q,p; with --pairs, of "
        "the components.",
    ),
    click.option(
        "--axes",
        type=click.Choice(["trajectory", "time"]),
        help="With --from: first axis of arrays of three axes.  [default: trajectory]",
    ),
    click.option(
        "--pairs",
        metavar="BEFORE,AFTER",
        help="States before and after a map: two arrays of --from FILE; endings of the columns of "
        "a table, as in x_before,x_after (or x,x_after); or, without --from, two files.",
    ),
    click.option(
        "--structure",
        type=click.Choice(FORMS),
        help="With --from or --pairs, without --system: structure of the map that is looked for.  "
        "[default: symplectic where components are named q1,p1 or x,px, else all are tried]",
    ),
    click.option("--title", help="With --from: what the data are."),
)
_OF_PAIRS = ("step", "seed", "fractions", "title", "structure", "variable", "columns")
_SHARED = ("step", "seed", "split", "fractions")  # options allowed with a recipe


def import_file(
    source: Path | None,
    output: Path | None,
    overwrite: bool,
    parameters: Mapping[str, Any],
    options: Mapping[str, Any],
    run: Mapping[str, Any],
) -> None:
    """Make a dataset of a file of arrays, and say what is in it."""
    if run["resume"] or run["scheduler"] or run["workers"] > 1:
        raise InputError(
            "--workers, --scheduler and --resume are not for --from, which computes nothing"
        )
    for key in options:
        if key not in (*_SHARED, *OPTIONS.names):
            raise InputError(f"--{key.replace('_', '-')} is not for --from, which computes nothing")
    if isinstance(options.get("step"), str):
        raise InputError(f"--step {options['step']} is not for --from; give the step as a number")
    from vpintegrator.cli.own_code import is_reference, system_of
    from vpintegrator.cli.reporting import report_imported
    from vpintegrator.data import import_dataset

    if "fractions" in options:
        options = {**options, "fractions": read_fractions(options["fractions"])}
    if is_reference(str(options.get("system", ""))):
        options = {**options, "system": system_of(options["system"], parameters)}
        parameters = {}
    for key in ("columns", "parameter_columns"):
        if key in options:
            options = {**options, key: [name.strip() for name in options[key].split(",")]}
    if "pairs" in options:
        dataset = _import_pairs(source, output, overwrite, parameters, options)
    else:
        assert source is not None
        options = {"parameters": parameters, "overwrite": overwrite, **options}
        dataset = import_dataset(source, _path(source, output), **options)
    report_imported(dataset)


def _import_pairs(
    source: Path | None,
    output: Path | None,
    overwrite: bool,
    parameters: Mapping[str, Any],
    options: Mapping[str, Any],
) -> Dataset:
    """Make a dataset of the two arrays, endings of columns, or files that ``--pairs`` names."""
    from vpintegrator.data import import_pairs

    given = {key: value for key, value in options.items() if key != "pairs"}
    if unknown := [key for key in given if key not in _OF_PAIRS]:
        raise InputError(f"--{unknown[0].replace('_', '-')} is not for --pairs")
    if parameters:
        raise InputError("-p gives parameters of a system, and --pairs takes none")
    names = [name.strip() for name in options["pairs"].split(",")]
    if len(names) != 2 or not all(names):
        raise InputError(
            f"--pairs {options['pairs']}: expected two names, as in --from ring.npz --pairs "
            "before,after, or two files"
        )
    components = given.pop("columns", None)
    before, after = names if source is not None else (Path(name) for name in names)
    return import_pairs(
        before,
        after,
        _path(source or Path(names[0]), output),
        source=source,
        components=components,
        overwrite=overwrite,
        **given,
    )


def _path(source: Path, output: Path | None) -> Path:
    """Return the path of the dataset, which must differ from the file that is read."""
    stem = Path(source.stem).stem if source.suffix.lower() == ".gz" else source.stem
    path = output or Path(f"{stem}{'-dataset' if source.suffix == '.h5' else ''}.h5")
    if path.exists() and source.exists() and path.samefile(source):
        raise InputError(f"{path} is the file that is read; give another name with -o")
    return path
