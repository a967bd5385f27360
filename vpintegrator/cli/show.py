"""vp-show: systems, methods, models, and the content of files."""

from __future__ import annotations

from pathlib import Path

import click

from vpintegrator.cli import command as cli
from vpintegrator.errors import InputError


@cli.command
@click.argument("thing", required=False, metavar="THING")
@cli.group("What", parameter=cli.PARAMETERS)
@cli.output_group("Picture of a dataset, a rollout or a training: .png, .pdf or .svg.")
def main(
    thing: str | None, parameter: tuple[str, ...], output: Path | None, overwrite: bool
) -> None:
    """Show a list, a system, a method, a model, or what is in a file.

    \b
    Examples:
      vp-show systems                  systems of the catalogue
      vp-show recipes                  datasets of the catalogue
      vp-show methods                  classical methods: order, structure, source
      vp-show models                   kinds of models for vp-train --model
      vp-show pendulum -p g=9.81       equations, invariants, symmetries
      vp-show vpt                      arguments of a model, with their defaults
      vp-show rigid-body.h5 -o a.png   content of a dataset, a rollout or a model
    """
    if thing is None:
        raise InputError("name systems, recipes, methods, models, one of them, or a file")
    import vpintegrator as vp
    from vpintegrator.cli.own_code import is_reference, load_system

    values = cli.read_parameters(parameter)
    source = load_system(thing, values) if is_reference(thing) else thing
    overview = vp.show(
        source, parameters=None if source is not thing else values, width=cli.line_width()
    )
    if output is not None:
        overview.draw(output, overwrite)
    cli.say(overview)
    if output is not None:
        cli.say(f"picture written to {output}")
    cli.write_json(lambda: overview.facts)


if __name__ == "__main__":
    main()
