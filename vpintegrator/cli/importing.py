"""vp-import: states that were measured, or computed by other programs, written to a dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vpintegrator.cli import command as cli
from vpintegrator.cli.report import report
from vpintegrator.errors import InputError
from vpintegrator.names import FORMS


@cli.command
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.argument("after", type=click.Path(path_type=Path), required=False, metavar="[AFTER]")
@cli.group(
    "What",
    variable=cli.text("NAME,...", "Arrays or columns that are the states."),
    columns=cli.text("NAME,...", "Names of all columns, or of the components of an array."),
    pairs=cli.text("BEFORE,AFTER", "Names or endings of states before and after a map."),
    parameter_columns=cli.text("NAME,...", "Columns that are parameters, constant in each run."),
    axes=cli.choice("FIRST", ["trajectory", "time", "particles"], "Order of axes. [trajectory]"),
    system=cli.text("SYSTEM", "System whose equations the states follow."),
    parameter=cli.PARAMETERS,
    structure=cli.choice(
        "FORM", [*FORMS, "lagrangian"], "The map keeps; lagrangian: positions. [found]"
    ),
)
@cli.group(
    "How much", step=cli.number("TIME", "Time between two states. [that of the file; 1 for pairs]")
)
@cli.output_group("Dataset to write. [FILE.h5]")
def main(
    file: Path,
    after: Path | None,
    columns: str | None,
    pairs: str | None,
    parameter_columns: str | None,
    system: str | None,
    parameter: tuple[str, ...],
    output: Path | None,
    overwrite: bool,
    **options: Any,
) -> None:
    """Make a dataset of states that you have: .csv, .npz, .npy, .h5 or .mat.

    A table has a column for each component, and if wanted 'time' and 'run'; an array has the shape
    (trajectory, time, component). Two files hold states before and AFTER a map, row by row.

    \b
    Examples:
      vp-import lab.csv
      vp-import lab.csv --step 0.02 --system pendulum -p g=9.81
      vp-import ring.npz --pairs before,after --columns x,px,y,py
      vp-import in.csv out.csv
    """
    from vpintegrator.cli.own_code import is_reference, load_system
    from vpintegrator.data import import_dataset
    from vpintegrator.data.importing.readers import SEPARATORS, ending_of
    from vpintegrator.overview import notes_of_import

    stem = Path(file.stem).stem if file.suffix.lower() == ".gz" else file.stem
    path = output or Path(f"{stem}{'-dataset' if file.suffix == '.h5' else ''}.h5")
    if path.exists() and file.exists() and path.samefile(file):
        raise InputError(f"{path} is the file that is read; give another name with -o")
    values = cli.read_parameters(parameter)
    named = cli.names(columns)
    known: Any = load_system(system, values) if system and is_reference(system) else system
    if pairs and after:
        raise InputError("pairs are two files, or one file with --pairs BEFORE,AFTER")
    paired: Any = True if after else cli.names(pairs)
    is_table = ending_of(file) in SEPARATORS
    options["columns" if is_table and not paired else "components"] = named
    dataset = import_dataset(
        (file, after) if after else file,
        path,
        pairs=paired,
        parameter_columns=cli.names(parameter_columns) or (),
        system=known,
        parameters=values if known is system else None,
        overwrite=overwrite,
        **cli.given(**options),
    )
    notes = [("states", ", ".join(dataset.system.components)), *notes_of_import(dataset)]
    unknown = "equations not known (--system gives them)"
    notes.append(("system", unknown if dataset.system.is_measured else dataset.system.title))
    report(dataset, notes)


if __name__ == "__main__":
    main()
