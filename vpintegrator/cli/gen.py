"""vp-gen: generate a dataset of trajectories, list the catalogue, show a system."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vpintegrator.cli.common import (
    SETTINGS,
    overwrite_option,
    parameter_option,
    plain_errors,
    read_parameters,
    version_option,
)
from vpintegrator.cli.output import output_options
from vpintegrator.errors import InputError

_OF_IMPORTS = ("variable", "system", "missing", "title", "decimal", "columns", "fit", "resample")


@click.command(context_settings=SETTINGS)
@click.argument("source", required=False, metavar="[DATASET|SYSTEM|FILE.toml]")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="HDF5 file to write.  [default: NAME.h5]",
)
@overwrite_option
@click.option(
    "--count",
    type=click.IntRange(min=3),
    help="Trajectories in all (train, validation and test together).",
)
@click.option("--steps", type=click.IntRange(min=1), help="Steps of each trajectory.")
@click.option("--step", type=float, help="Time between two states.")
@click.option("--seed", type=click.IntRange(min=0), help="Seed of the random initial states.")
@parameter_option
@click.option("--method", help="SciPy's solver: DOP853, RK45, RK23, Radau, BDF, LSODA.")
@click.option("--rtol", type=float, help="Relative tolerance of every single trajectory.")
@click.option("--atol", type=float, help="Absolute tolerance of every single trajectory.")
@click.option(
    "--split",
    type=click.Choice(["trajectory", "time"]),
    help="Every trajectory in one group, or each cut in time.  [default: the recipe's]",
)
@click.option(
    "--fractions",
    metavar="A,B,C",
    help="Parts of train, validation and test, such as 0.7,0.15,0.15.",
)
@click.option(
    "--noise",
    metavar="S,...",
    help="Standard deviation of noise on what is trained on; with --from and --system, of the "
    "noise that is there.",
)
@click.option(
    "--relative-noise", metavar="S,...", help="The same in units of each component's spread."
)
@click.option("--missing-times", type=float, help="Part of the times without an observation.")
@click.option(
    "--strata",
    type=click.IntRange(min=1),
    help="Spread initial states evenly over so many intervals of the energy.",
)
@click.option(
    "--from",
    "from_",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Take trajectories from a file .npz, .csv (also .csv.gz, .txt), .h5 or .nc instead of "
    "integrating.",
)
@click.option("--variable", metavar="NAME,...", help="With --from: array or columns to take.")
@click.option("--system", metavar="SYSTEM|FILE.toml", help="With --from: the system behind them.")
@click.option(
    "--fit",
    metavar="NAME,...",
    help="With --from and --system: parameters to estimate from the data, with standard errors.",
)
@click.option("--missing", is_flag=True, help="With --from: states may be missing (NaN, gaps).")
@click.option(
    "--resample",
    is_flag=True,
    help="With --from: bring irregular times to equal steps by cubic splines, and say the error.",
)
@click.option(
    "--decimal",
    type=click.Choice([".", ","]),
    help="With --from: the decimal mark of a text file.  [default: found out]",
)
@click.option(
    "--columns",
    metavar="NAME,...",
    help="With --from: names of all columns of a text file without a header, as in time,q,p.",
)
@click.option("--title", help="With --from: what the data are.")
@click.option(
    "--inspect",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Say what is in a dataset (or rollout, or model) and draw a preview to -o.",
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Processes on this machine; the numbers do not depend on it.",
)
@click.option(
    "--scheduler",
    metavar="ADDRESS|FILE",
    help="Scheduler of a dask cluster whose workers integrate, such as tcp://host:8786.",
)
@click.option("--resume", is_flag=True, help="Keep what an interrupted run left in OUTPUT.shards.")
@click.option(
    "--single-file/--no-single-file",
    default=None,
    help="Copy the shards of a large dataset to one file, or leave them beside a view of them.  "
    "[default: one file up to 1 GiB]",
)
@click.option("--list", "list_", is_flag=True, help="List the catalogue of datasets and systems.")
@click.option(
    "--show",
    metavar="SYSTEM",
    help="Typeset a system: equations, invariants, symmetries, divergence.",
)
@output_options
@version_option
@plain_errors
def main(
    source: str | None,
    output: Path | None,
    overwrite: bool,
    parameters: tuple[str, ...],
    from_: Path | None,
    inspect: Path | None,
    workers: int,
    scheduler: str | None,
    resume: bool,
    single_file: bool | None,
    list_: bool,
    show: str | None,
    **overrides: Any,
) -> None:
    """Generate trajectories of a system with SciPy and write them to an HDF5 file.

    The argument names a dataset of the catalogue (vp-gen --list), a system of the catalogue, or a
    TOML file of your own that describes either. With --from, trajectories that were measured or
    computed elsewhere become a dataset.

    \b
    Examples:
      vp-gen rigid-body -o rigid-body.h5
      vp-gen pendulum --count 500 --step 0.1 -p g=9.81
      vp-gen my-system.toml --steps 50
      vp-gen rigid-body --count 1000000 --steps 100 --workers 8
      vp-gen --from lab.csv --step 0.02 -o lab.h5
      vp-gen --from lab.csv --system pendulum --fit g -o lab.h5
      vp-gen --inspect rigid-body.h5
      vp-gen --show coupled-oscillators
    """
    if list_:
        from vpintegrator.cli.listing import list_catalogue

        list_catalogue()
    if show is not None:
        from vpintegrator.cli.showing import show_system

        show_system(show, read_parameters(parameters))
    if list_ or show is not None:
        return
    # an option that was not given is None, a flag False; a 0 that was given stays to be judged
    overrides = {k: v for k, v in overrides.items() if v is not None and v is not False}
    if inspect is not None or from_ is not None:
        option = "--inspect" if inspect is not None else "--from"
        if source is not None:
            raise InputError(f"{option} takes a file; leave out '{source}'")
        if inspect is not None:
            from vpintegrator.cli.inspecting import inspect as inspect_file

            inspect_file(inspect, output, overwrite)
            return
    if from_ is not None:
        if resume or scheduler or workers > 1:
            raise InputError(
                "--workers, --scheduler and --resume are not for --from, which computes nothing"
            )
        from vpintegrator.cli.importing import import_file

        import_file(from_, output, overwrite, read_parameters(parameters), overrides)
        return
    for key in _OF_IMPORTS:
        if key in overrides:
            raise InputError(f"--{key} is an option of --from")
    if source is None:
        raise InputError(
            "say what to generate: a dataset, a system or a file; vp-gen --list shows the catalogue"
        )
    from vpintegrator.cli.generating import generate_with_progress
    from vpintegrator.cli.recipe_options import recipe_options
    from vpintegrator.cli.reporting import report_generated
    from vpintegrator.data import load_recipe
    from vpintegrator.files import check_output

    as_text = not source.endswith(".toml") and ("\n" in source or "=" in source)
    path = output or Path("dataset.h5" if as_text else f"{Path(source).stem}.h5")
    check_output(path, overwrite or resume)
    recipe = load_recipe(
        source, parameters=read_parameters(parameters), **recipe_options(overrides)
    )
    dataset = generate_with_progress(
        recipe,
        path,
        overwrite=overwrite,
        workers=workers,
        scheduler=scheduler,
        resume=resume,
        single_file=single_file,
    )
    report_generated(dataset)


if __name__ == "__main__":
    main()
