"""vp-gen --from: a dataset of trajectories that others measured or computed."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from vpintegrator.cli.common import Options, read_fractions, read_numbers
from vpintegrator.cli.completion import each_of, files, offer, parameters, systems
from vpintegrator.errors import InputError

OPTIONS = Options(
    click.option("--variable", metavar="NAME,...", help="With --from: array or columns to take."),
    click.option(
        "--system",
        metavar="SYSTEM|FILE.toml",
        shell_complete=offer(systems, files(".toml")),
        help="With --from: the system behind them.",
    ),
    click.option(
        "--fit",
        metavar="NAME,...",
        shell_complete=offer(each_of(parameters)),
        help="With --from and --system: parameters to estimate from the data, with standard "
        "errors.",
    ),
    click.option("--missing", is_flag=True, help="With --from: states may be missing (NaN, gaps)."),
    click.option(
        "--irregular",
        type=click.Choice(["pairs", "resample"]),
        help="With --from: take each pair of neighbours with a step of its own, or bring irregular "
        "times to equal steps by cubic splines, and say the error.  [default: pairs where steps "
        "differ by more than a tenth]",
    ),
    click.option("--resample", is_flag=True, help="With --from: as --irregular resample."),
    click.option(
        "--longest-step",
        type=float,
        help="With --from: the longest step of a pair.  [default: 10 times the median]",
    ),
    click.option(
        "--parameter-columns",
        metavar="NAME,...",
        help="With --from: columns or arrays that are parameters, or inputs held over a step.",
    ),
    click.option(
        "--decimal",
        type=click.Choice([".", ","]),
        help="With --from: the decimal mark of a text file.  [default: found out]",
    ),
    click.option(
        "--columns",
        metavar="NAME,...",
        help="With --from: names of all columns of a text file without a header, as in time,q,p.",
    ),
    click.option("--title", help="With --from: what the data are."),
)
_SHARED = ("step", "seed", "split", "fractions", "noise")  # with a recipe


def import_file(
    source: Path,
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
    from vpintegrator.cli.reporting import report_imported
    from vpintegrator.data import import_dataset

    if "fractions" in options:
        options = {**options, "fractions": read_fractions(options["fractions"])}
    if "noise" in options:
        if "system" not in options:
            raise InputError("--noise is not for --from without --system: states stay as they are")
        options = {**options, "noise": read_numbers(options["noise"], "noise")}
    for key in ("columns", "fit", "parameter_columns"):
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
