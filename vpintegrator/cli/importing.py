"""Import in vp-gen (--from): datasets of measured or computed trajectories."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vpintegrator.cli.common import Options, read_fractions, read_numbers, say
from vpintegrator.errors import InputError
from vpintegrator.names import ROWS, STRUCTURES

if TYPE_CHECKING:
    from vpintegrator.data import Dataset

OPTIONS = Options(
    click.option("--variable", metavar="NAME,...", help="With --from: array or columns to take."),
    click.option(
        "--system",
        metavar="SYSTEM|FILE.toml|MODULE:NAME",
        help="With --from: the system behind them.",
    ),
    click.option(
        "--fit",
        metavar="NAME,...",
        help="With --from and --system: parameters to estimate from the data, with standard "
        "errors.",
    ),
    click.option(
        "--observed",
        metavar="EXPRESSION,...",
        help="With --from and --system: what each column is, a component or a linear combination, "
        "as in q or 'q[0]+q[1]'; the other components are reconstructed.",
    ),
    click.option(
        "--positions-only",
        is_flag=True,
        help="With --from: the columns are positions q; learn V of H = p.p/2m + V(q) from them.",
    ),
    click.option(
        "--angles",
        metavar="NAME,...",
        help="With --positions-only: angles of the period 2 pi.  [default: columns in rad or deg]",
    ),
    click.option("--masses", metavar="M,...", help="With --positions-only: masses.  [default: 1]"),
    click.option(
        "--potential-degree",
        type=click.IntRange(min=1),
        help="With --positions-only: degree of V.  [default: by leaving out trajectories]",
    ),
    click.option("--missing", is_flag=True, help="With --from: states may be missing (NaN, gaps)."),
    click.option(
        "--irregular",
        type=click.Choice(["pairs", "resample"]),
        help="With --from: take each pair of neighbours with a step of its own, or bring irregular "
        "times to equal steps by cubic splines, and say the error.  [default: pairs where steps "
        "differ by more than a tenth]",
    ),
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
        metavar="NAME,...|OLD=NEW,...",
        help="With --from: names of all columns of a text file without a header, as in time,q,p, "
        "or new names of columns, as in angle=theta,Versuch=run; with --pairs, of the components.",
    ),
    click.option(
        "--pairs",
        metavar="BEFORE,AFTER",
        help="States before and after a map: two arrays of --from FILE; endings of the columns of "
        "a table, as in x_before,x_after (or x,x_after); or, without --from, two files.",
    ),
    click.option(
        "--structure",
        type=click.Choice(STRUCTURES),
        help="With --from or --pairs, without --system: structure of the map that is looked for.  "
        "[default: symplectic where components are named q1,p1 or x,px, else volume-preserving]",
    ),
    click.option(
        "--topology",
        type=click.Choice(ROWS),
        help="With --from or --pairs, without --system: the components are those of sites along a "
        "ring, all alike, or a chain; models then use neighbours.",
    ),
    click.option("--title", help="With --from: what the data are."),
)
_OF_PAIRS = ("step", "seed", "fractions", "title", "structure", "topology", "variable", "columns")
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
    from vpintegrator.storage.files import check_output, replacing

    if "fractions" in options:
        options = {**options, "fractions": read_fractions(options["fractions"])}
    if is_reference(str(options.get("system", ""))):
        options = {**options, "system": system_of(options["system"], parameters)}
        parameters = {}
    if "masses" in options:
        options = {**options, "masses": read_numbers(options["masses"], "masses")}
    for key in ("fit", "parameter_columns", "observed", "angles"):
        if key in options:
            options = {**options, key: [name.strip() for name in options[key].split(",")]}
    if "columns" in options:
        options = {**options, "columns": _read_columns(options["columns"])}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the report says it
        if "pairs" in options:
            dataset = _import_pairs(source, output, overwrite, parameters, options)
        else:
            assert source is not None
            path = _path(source, output)
            options = {"parameters": parameters, "overwrite": overwrite, **options}
            learned = path.with_name(f"{path.stem}-system.toml")
            if options.get("positions_only"):
                check_output(learned, overwrite)
            dataset = import_dataset(source, path, **options)
    report_imported(dataset)
    if options.get("positions_only"):
        with replacing(learned, overwrite) as part:
            part.write_text(dataset.system.text, encoding="utf-8")
        say("system file", f"{learned}, with the potential and its standard errors")


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
    if isinstance(components, Mapping):
        raise InputError("--columns names the components of --pairs, as in x,px,y,py")
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


def _read_columns(text: str) -> list[str] | dict[str, str]:
    """Parse ``time,q,p`` to a list of names, ``angle=theta,Versuch=run`` to old and new names."""
    entries = [entry.strip() for entry in text.split(",")]
    if not any("=" in entry for entry in entries):
        return entries
    found = {}
    for entry in entries:
        old, _, new = (part.strip() for part in entry.partition("="))
        if not old or not new:
            raise InputError(f"--columns {entry}: expected OLD=NEW, as in angle=theta")
        found[old] = new
    return found


def _path(source: Path, output: Path | None) -> Path:
    """Return the path of the dataset, which must differ from the file that is read."""
    stem = Path(source.stem).stem if source.suffix.lower() == ".gz" else source.stem
    path = output or Path(f"{stem}{'-dataset' if source.suffix == '.h5' else ''}.h5")
    if path.exists() and source.exists() and path.samefile(source):
        raise InputError(f"{path} is the file that is read; give another name with -o")
    return path
