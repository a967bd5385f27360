"""vp-gen: generate a dataset of trajectories, list the catalogue, show a system."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vpintegrator.cli import generating, importing
from vpintegrator.cli.common import (
    SETTINGS,
    common_options,
    file_options,
    read_parameters,
)
from vpintegrator.errors import InputError


@click.command(context_settings=SETTINGS)
@click.argument(
    "source",
    required=False,
    metavar="[DATASET|SYSTEM|FILE.toml|MODULE:NAME]",
)
@file_options("HDF5 file to write.  [default: NAME.h5]")
@generating.RECIPE_OPTIONS
@click.option(
    "--from",
    "from_",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Take trajectories from a file .npz, .npy, .h5, .mat or .csv instead of integrating.",
)
@importing.OPTIONS
@click.option(
    "--inspect",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Say what is in a dataset (or rollout, or model) and draw a preview to -o.",
)
@generating.RUN_OPTIONS
@click.option("--list", "list_", is_flag=True, help="List the catalogue of datasets and systems.")
@click.option(
    "--show",
    metavar="SYSTEM",
    help="Typeset a system: equations, invariants, symmetries, divergence.",
)
@common_options
def main(
    source: str | None,
    output: Path | None,
    overwrite: bool,
    parameters: tuple[str, ...],
    from_: Path | None,
    inspect: Path | None,
    list_: bool,
    show: str | None,
    **options: Any,
) -> None:
    """Generate trajectories of a system with SciPy and write them to an HDF5 file.

    The argument names a dataset of the catalogue (vp-gen --list), a system of the catalogue, or a
    TOML file of your own that describes either, or MODULE:NAME, a system or a function f(t, y) of
    your own, which is imported. With --from, trajectories that were measured or
    computed elsewhere become a dataset; with --pairs, states before and after a map.

    \b
    Examples:
      vp-gen rigid-body -o rigid-body.h5
      vp-gen pendulum --count 500 --step 0.1 -p g=9.81
      vp-gen my-system.toml --steps 50
      vp-gen my_module:pendulum --step 0.1
      vp-gen rigid-body --vary step=0.05:0.4 --vary I1=1.5:2.5
      vp-gen forced-duffing --step period
      vp-gen henon-heiles --section "q[0] = 0" -p energy=0.1
      vp-gen rigid-body --count 1000000 --steps 100 --workers 8
      vp-gen --from lab.csv --step 0.02 -o lab.h5
      vp-gen --from lab.csv --system pendulum -p g=9.81 -o lab.h5
      vp-gen --from ring.npz --pairs before,after --columns x,px,y,py -o ring.h5
      vp-gen --inspect rigid-body.h5
      vp-gen --show coupled-oscillators
    """
    if list_:
        from vpintegrator.cli.showing import list_catalogue

        list_catalogue()
    if show is not None:
        from vpintegrator.cli.showing import show_system

        show_system(show, read_parameters(parameters))
    if list_ or show is not None:
        return
    for option, file in (("--inspect", inspect), ("--from", from_)):
        if file is not None and source is not None:
            raise InputError(f"{option} takes a file; leave out '{source}'")
    if inspect is not None:
        from vpintegrator.cli.inspecting import inspect as inspect_file

        inspect_file(inspect, output, overwrite)
        return
    run = {name: options.pop(name) for name in generating.RUN_OPTIONS.names}
    # an option not given is None, (), or False for a flag; a 0 that was given stays to be judged
    given = {k: v for k, v in options.items() if v is not None and v is not False and v != ()}
    values = read_parameters(parameters)
    if from_ is not None or "pairs" in given:
        if source is not None:
            raise InputError(f"--pairs takes files; leave out '{source}'")
        importing.import_file(from_, output, overwrite, values, given, run)
    else:
        generating.generate_dataset(source, output, overwrite, values, given, run)


if __name__ == "__main__":
    main()
