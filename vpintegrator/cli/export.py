"""vp-export: a trained model as a file of C that other programs run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vpintegrator.cli.common import (
    SETTINGS,
    common_options,
    file_options,
    parameter_option,
    read_parameters,
    tell,
)
from vpintegrator.cli.output import write_json
from vpintegrator.errors import InputError

if TYPE_CHECKING:
    from vpintegrator.compiled import Exported
    from vpintegrator.models import Model


@click.command(context_settings=SETTINGS)
@click.argument(
    "model",
    type=click.Path(path_type=Path),
    metavar="MODEL.safetensors",
)
@file_options("File to write.  [default: named after the model]")
@click.option(
    "--dtype",
    type=click.Choice(["float64", "float32"]),
    help="What the file computes in.  [default: as the model]",
)
@click.option(
    "--step",
    type=float,
    metavar="STEP",
    help="Of a family, the step of the model to export.",
)
@parameter_option(
    "Of a family, a parameter of the model to export (-p I1=2.2), the system's own value where not "
    "given; repeat for several."
)
@click.option(
    "--name",
    default="vp",
    show_default=True,
    metavar="NAME",
    help="What the names of the functions begin with, as NAME_step.",
)
@click.option("--jacobian", is_flag=True, help="Write NAME_step_jacobian, with derivatives, too.")
@click.option(
    "--many",
    is_flag=True,
    help="Write NAME_rollout_many, for many trajectories side by side in vectors, too.",
)
@click.option(
    "--header",
    type=click.Path(path_type=Path),
    metavar="FILE.h",
    help="Write the declarations of the functions, too.",
)
@common_options
def main(
    model: Path,
    output: Path | None,
    step: float | None,
    parameters: tuple[str, ...],
    **options: Any,
) -> None:
    """Write a trained model as one file of C99, which other programs run.

    It needs only <math.h> and <string.h>, and has the functions
    vp_step(window, next) and vp_rollout(window, states, calls), for programs
    in C, C++, Fortran, Julia or Python: docs/guides/export.md shows each.

    The file is compared with the model first, where there is a compiler.

    \b
    Examples:
      vp-export rigid-body-split.safetensors -o step.c
      vp-export family.safetensors --step 0.1 -p I1=2.2 --name body
    """
    from vpintegrator.compiled.exporting import export
    from vpintegrator.storage.files import safe_name

    given = read_parameters(parameters)
    from vpintegrator.models import load

    chosen = _one_of(load(model), step, given)
    path = output or Path(f"{safe_name(model.stem, 'model')}.c")
    written = export(chosen, path, **options)
    _say(written, chosen, options)
    write_json(
        lambda: {
            "output": written.path,
            "model": chosen.name,
            "verified": written.verified,
            "note": written.note,
            "operations": written.operations,
            "functions": written.functions,
        }
    )


def _one_of(model: Model, step: float | None, parameters: dict[str, Any]) -> Model:
    """Return the model of a family that is asked for."""
    asked = parameters | ({} if step is None else {"step": step})
    if asked and not model.conditions:
        raise InputError(
            f"{model.name} is no family: it has the step and the parameters of its training; leave "
            "out --step and --parameter"
        )
    return model.at(**asked) if asked else model


def _say(written: Exported, model: Model, options: dict[str, Any]) -> None:
    """Print the facts of the exported model, and the commands that use the file."""
    from vpintegrator.compiled.exporting import facts_of

    facts = facts_of(model)
    known = [facts[name] for name in ("system",) if name in facts]
    known += [f"step {facts['step']}"] if "step" in facts else []
    title = ", ".join(
        [f"{model.name}, {sum(p.numel() for p in model.parameters())} parameters", *known]
    )
    tell(title)
    if "keeps" in facts:
        tell(f"  keeps {facts['keeps']}")
    functions = written.functions
    more = f" and {functions:,} functions such as tanh" if functions else ""
    tell(f"  a step takes {written.operations:,} operations{more}")
    if written.verified:
        tell("  compared with the model in PyTorch at random windows: equal to rounding")
    else:
        tell(f"  not compared with the model in PyTorch: {written.note}")
    header = options.get("header")
    also = f", its declarations to {header}" if header else ""
    compiled = f"; compile it with: cc -O2 -march=native -c {written.path}"
    tell(f"written to {written.path}{also}{compiled}")


if __name__ == "__main__":
    main()
