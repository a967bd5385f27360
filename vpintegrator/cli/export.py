"""vp-export: a model as one file of C that other programs run."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from vpintegrator.cli import command as cli
from vpintegrator.errors import InputError


@cli.command
@click.argument("model", type=click.Path(path_type=Path), metavar="MODEL")
@cli.group(
    "What",
    parameter=cli.PARAMETERS | {"help": "Step or parameter of a family: -p step=0.1 -p I1=2.2."},
    jacobian=cli.flag("Also write a step with its derivatives."),
)
@cli.output_group("File of C to write. [MODEL.c]")
def main(
    model: Path, parameter: tuple[str, ...], jacobian: bool, output: Path | None, overwrite: bool
) -> None:
    """Write a model as one file of C99 with the functions vp_step and vp_rollout.

    The file needs only <math.h> and <string.h>. It is compared with the model first, where there is
    a compiler. docs/guides/export.md shows programs in C, C++, Fortran, Julia and Python.

    \b
    Examples:
      vp-export rigid-body.safetensors
      vp-export rigid-body.safetensors -o step.c --jacobian
      vp-export family.safetensors -p step=0.1 -p I1=2.2
    """
    from vpintegrator.compiled.exporting import export
    from vpintegrator.models import load
    from vpintegrator.storage.files import safe_name

    values = cli.read_parameters(parameter)
    network = load(model)
    if values and not network.ranges:
        raise InputError(f"{network.name} is no family: it has one step; leave out -p")
    network = network.at(**values) if values else network
    path = output or Path(f"{safe_name(model.stem, 'model')}.c")
    written = export(network, path, jacobian=jacobian, overwrite=overwrite)
    count = sum(parameter.numel() for parameter in network.parameters())
    system = network.system
    origin = {"system": system.name if system else "", "step": network.origin.step}
    known = ", ".join(f"{name} {value}" for name, value in origin.items() if value)
    cli.say(f"{network.name}, {count} parameters{known and f', {known}'}")
    cli.say(f"  a step takes {written.operations:,} operations, {written.functions:,} functions")
    checked = "equal to rounding" if written.verified else f"not compared: {written.note}"
    cli.say(f"  beside the model in PyTorch: {checked}")
    cli.say(f"written to {path}; compile it with: cc -O2 -march=native -c {path}")
    cli.write_json(lambda: {"output": path, "model": network.name, **asdict(written)})


if __name__ == "__main__":
    main()
