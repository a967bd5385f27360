"""vp-plot: draw the figures, tables and captions of a rollout, or the figures of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vpintegrator.cli.common import (
    SETTINGS,
    columns_option,
    common_options,
    file_options,
    progress_bar,
    read_numbers,
    tell,
)
from vpintegrator.cli.output import write_json


@click.command(context_settings=SETTINGS)
@click.argument(
    "file",
    type=click.Path(path_type=Path),
    metavar="ROLLOUT.h5|MODEL.safetensors",
)
@file_options("Folder for all of it; made if need be.", default=Path("figures"), show_default=True)
@click.option(
    "--format",
    "formats",
    multiple=True,
    type=click.Choice(["png", "pdf", "svg"]),
    help="Repeat for several.  [default: png and pdf]",
)
@click.option(
    "--figure",
    "figures",
    multiple=True,
    metavar="NAME",
    help="Draw only this figure and write its caption, such as errors; repeat for several.  "
    "[default: all figures and tables]",
)
@click.option(
    "--methods",
    metavar="NAME,...",
    help="Show only these methods.  [default: all]",
)
@click.option(
    "--style",
    metavar="FILE|NAME",
    help="Fonts, sizes and colours: a Matplotlib style file, or a style such as dark_background.",
)
@click.option(
    "--width",
    metavar="column|page|INCHES",
    help="Width of every figure.  [default: each figure's own, 3.4 or 7 inches]",
)
@click.option(
    "--orbits",
    metavar="NUMBER,...",
    help="Orbits that overview and portraits show of every method, the first also in time; "
    "sections are at its energy.  "
    "[default: in the overview the median and the worst of the first model]",
)
@columns_option
@common_options
def main(
    file: Path,
    output: Path,
    formats: tuple[str, ...],
    figures: tuple[str, ...],
    methods: str | None,
    style: str | None,
    width: str | None,
    orbits: str | None,
    columns: list[str] | None,
    overwrite: bool,
) -> None:
    """Draw the figures, tables and captions of a rollout: no method runs again.

    Of a model, the curve of its training is drawn, and the weights of its attention in one window.

    \b
    Examples:
      vp-plot rigid-body-rollout.h5 -o figures/
      vp-plot rigid-body-rollout.h5 -o paper/ --format pdf --width column
      vp-plot rigid-body-rollout.h5 -o paper/ --figure errors --methods vpt,rk4
      vp-plot rigid-body-rollout.h5 -o slides/ --style slides.mplstyle --format png
      vp-plot rigid-body-vpt.safetensors -o training/
      vp-plot rigid-body-rollout.h5 --orbits 2,5
      vp-plot rigid-body-rollout.h5 --columns 'median RMSE,energy error,order'
    """
    from vpintegrator.plotting import draw
    from vpintegrator.plotting.draw import open_drawn
    from vpintegrator.plotting.scene import only

    chosen = [] if orbits is None else read_numbers(orbits, "orbits", int)
    names = [name.strip() for name in methods.split(",")] if methods else []
    with progress_bar() as bar:
        task = bar.add_task("figures", total=None)
        paths = draw(
            file,
            output,
            formats=formats or ("png", "pdf"),
            overwrite=overwrite,
            figures=figures,
            methods=names,
            style=style,
            width=width,
            columns=columns,
            orbits=chosen,
            progress=lambda name, done, total: bar.update(
                task, description=name or "figures", completed=done, total=total
            ),
        )
    for path in paths:
        tell(path)

    def results() -> dict[str, Any]:
        source = open_drawn(file)
        table = {} if isinstance(source, Path) else {"table": only(source, names).table()}
        return {"files": paths} | table

    write_json(results)


if __name__ == "__main__":
    main()
