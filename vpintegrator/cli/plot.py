"""vp-plot: figures, tables and captions of a rollout, a model or a study."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vpintegrator.cli import command as cli


@cli.command
@click.argument("rollout", type=click.Path(path_type=Path), metavar="ROLLOUT|MODEL|STUDY")
@cli.group(
    "What",
    figure=cli.many("NAME", "One figure and its caption; repeat for several. [all, and tables]"),
    methods=cli.text("NAME,...", "Methods to show. [all]"),
    columns=cli.text("TITLE,...", "Columns of the tables, as in table.csv. [those that fit]"),
)
@cli.group(
    "How much",
    format=cli.many("FORMAT", "png, pdf or svg; repeat for several. [png and pdf]"),
    width=cli.text("WIDTH", "Width of every figure: column, page or inches. [each its own]"),
)
@cli.output_group("Folder of the files. [figures]")
def main(
    rollout: Path,
    figure: tuple[str, ...],
    methods: str | None,
    columns: str | None,
    format: tuple[str, ...],
    width: str | None,
    output: Path | None,
    overwrite: bool,
) -> None:
    """Draw the figures, tables and captions of a rollout; no method runs again.

    Of a model, the course of its training and the weights of its attention are drawn, and with
    --figure architecture its layers; of the folder of a study, errors against what varies, time of
    training and cost. The figures of a rollout are
    overview, phase, coordinates, errors, invariants, volume, poincare, map, rotation and
    work-precision, as far as they have something to show.

    \b
    Examples:
      vp-plot rigid-body-rollout.h5
      vp-plot rigid-body-rollout.h5 -o paper --format pdf --width column
      vp-plot rigid-body-rollout.h5 --figure errors --methods rigid-body,rk4
      vp-plot rigid-body-rollout.h5 --columns "median RMSE,energy error,energy drift"
      vp-plot rigid-body.safetensors -o training
      vp-plot rigid-body.safetensors --figure architecture --format pdf
      vp-plot rigid-body-vpt-study -o paper
    """
    from vpintegrator.plotting import draw
    from vpintegrator.plotting.draw import open_drawn
    from vpintegrator.plotting.scene import only

    folder = output or Path("figures")
    names = cli.names(methods) or []
    with cli.progress() as show:
        paths = draw(
            rollout,
            folder,
            formats=format or ("png", "pdf"),
            overwrite=overwrite,
            figures=figure,
            methods=names,
            columns=cli.names(columns) or [],
            width=width,
            progress=show,
        )
    figures = [path for path in paths if path.suffix in (".png", ".pdf", ".svg")]
    drawn = list(dict.fromkeys(path.stem for path in figures))
    cli.say(f"{len(drawn)} figure{'s' * (len(drawn) > 1)}: {', '.join(drawn)}")
    cli.say(f"{len(paths)} files written to {folder}; {paths[-1]} describes the figures")

    def facts() -> dict[str, Any]:
        source = open_drawn(rollout)
        table = {} if isinstance(source, Path) else {"table": only(source, names).table()}
        return {"files": paths} | table

    cli.write_json(facts)


if __name__ == "__main__":
    main()
