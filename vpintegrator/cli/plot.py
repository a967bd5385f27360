"""vp-plot: draw the figures and tables of a rollout file."""

from __future__ import annotations

from pathlib import Path

import click

from vpintegrator.cli.common import (
    SETTINGS,
    console,
    overwrite_option,
    plain_errors,
    version_option,
)


@click.command(context_settings=SETTINGS)
@click.argument("rollout", type=click.Path(path_type=Path), metavar="ROLLOUT.h5")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("figures"),
    show_default=True,
    help="Folder for figures and tables; made if need be.",
)
@click.option(
    "--format",
    "formats",
    multiple=True,
    type=click.Choice(["png", "pdf"]),
    help="Repeat for several.  [default: png and pdf]",
)
@overwrite_option
@version_option
@plain_errors
def main(rollout: Path, output: Path, formats: tuple[str, ...], overwrite: bool) -> None:
    """Draw the figures and tables of a rollout: nothing is integrated again.

    \b
    Example:
      vp-plot rigid-body-rollout.h5 -o figures/
    """
    from vpintegrator.plotting import draw

    paths = draw(rollout, output, formats=formats or ("png", "pdf"), overwrite=overwrite)
    out = console()
    for path in paths:
        out.print(path, soft_wrap=True)


if __name__ == "__main__":
    main()
