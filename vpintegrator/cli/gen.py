"""vp-gen: generate a dataset of trajectories, list the catalogue, show a system."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vpintegrator.cli.common import (
    SETTINGS,
    console,
    overwrite_option,
    parameter_option,
    plain_errors,
    progress_bar,
    read_parameters,
    version_option,
)
from vpintegrator.errors import InputError

if TYPE_CHECKING:
    from vpintegrator.data import Dataset


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
@click.option("--list", "list_", is_flag=True, help="List the catalogue of datasets and systems.")
@click.option(
    "--show",
    metavar="SYSTEM",
    help="Typeset a system: equations, invariants, symmetries, divergence.",
)
@version_option
@plain_errors
def main(
    source: str | None,
    output: Path | None,
    overwrite: bool,
    parameters: tuple[str, ...],
    list_: bool,
    show: str | None,
    **overrides: Any,
) -> None:
    """Generate trajectories of a system with SciPy and write them to an HDF5 file.

    The argument names a dataset of the catalogue (vp-gen --list), a system of the catalogue, or a
    TOML file of your own that describes either.

    \b
    Examples:
      vp-gen rigid-body -o rigid-body.h5
      vp-gen pendulum --count 500 --step 0.1 -p g=9.81
      vp-gen my-system.toml --steps 50
      vp-gen --show coupled-oscillators
    """
    if list_:
        _list()
    if show is not None:
        _show(show, read_parameters(parameters))
    if list_ or show is not None:
        return
    if source is None:
        raise InputError(
            "say what to generate: a dataset, a system or a file; vp-gen --list shows the catalogue"
        )
    from vpintegrator.data import generate, load_recipe
    from vpintegrator.files import check_output

    path = output or Path(f"{Path(source).stem}.h5")
    check_output(path, overwrite)
    recipe = load_recipe(source, parameters=read_parameters(parameters), **overrides)
    with progress_bar() as progress:
        task = progress.add_task(f"integrating {recipe.system.name}", total=None)
        dataset = generate(
            recipe,
            path,
            overwrite=overwrite,
            progress=lambda done, total: progress.update(task, completed=done, total=total),
        )
    _report(dataset)


def _report(dataset: Dataset) -> None:
    out = console()
    counts = ", ".join(f"{shape[0]} {name}" for name, shape in dataset.shapes.items())
    steps = dataset.shapes["train"][1] - 1
    drift = ", ".join(
        f"{k.replace('_', ' ')} {v:.1e}" for k, v in dataset.accuracy["invariant_drift"].items()
    )
    size = dataset.path.stat().st_size / 2**20
    out.print(f"[bold]{dataset.title}[/bold]")
    out.print(f"  trajectories   {counts}; {steps} steps of {dataset.step:g} each")
    out.print(
        f"  accuracy       error about {dataset.accuracy['estimated_error']:.1e} "
        f"({dataset.accuracy['sample']} trajectories integrated again, more tightly)",
        soft_wrap=True,
    )
    if drift:
        out.print(f"  invariants     largest relative change: {drift}", soft_wrap=True)
    out.print(f"  written to     {dataset.path} ({size:.2g} MiB)", soft_wrap=True)


def _list() -> None:
    from rich.table import Column, Table

    from vpintegrator.data import list_recipes, load_recipe
    from vpintegrator.dynamics import list_systems, load_system

    out = console()
    datasets = Table(
        Column("dataset", no_wrap=True),
        Column("system", no_wrap=True),
        "step",
        "steps",
        "trajectories",
        "title",
        box=None,
        title="Datasets",
        title_justify="left",
        title_style="bold",
    )
    for name in list_recipes():
        recipe = load_recipe(name)
        datasets.add_row(
            name,
            recipe.system.name,
            f"{recipe.step:g}",
            str(recipe.steps),
            str(recipe.count),
            recipe.title,
        )
    systems = Table(
        Column("system", no_wrap=True),
        "dim",
        "kind",
        "title",
        box=None,
        title="Systems",
        title_justify="left",
        title_style="bold",
    )
    for name in list_systems():
        system = load_system(name)
        systems.add_row(name, str(system.dim), _kind(system), system.title)
    out.print(datasets, "", systems)


def _kind(system: Any) -> str:
    if system.is_hamiltonian:
        return "Hamiltonian"
    return "divergence-free" if system.divergence_free else "not divergence-free"


def _show(name: str, parameters: dict[str, Any]) -> None:
    from vpintegrator.dynamics import load_system
    from vpintegrator.dynamics.typeset import equations_unicode, expression_unicode

    system = load_system(name, **parameters)
    out = console()

    def section(title: str, *lines: str) -> None:
        out.print(f"\n[bold]{title}[/bold]")
        for line in "\n".join(lines).splitlines():
            out.print("  " + line, markup=False, soft_wrap=True)

    out.print(
        f"[bold]{system.title}[/bold] ({system.name}), {system.dim} components, {_kind(system)}"
    )
    for text in (system.description, system.reference):
        if text:
            out.print(text, markup=False)
    width = max(out.width - 2, 60)
    section("Equations", equations_unicode(system, width))
    if system.parameters:
        section("Parameters", *(f"{k} = {_value(v)}" for k, v in system.parameters.items()))
    invariants = system.equations.invariants
    section(
        "Invariants",
        *([expression_unicode(k, v, width) for k, v in invariants.items()] or ["none declared"]),
    )
    section(
        "Reversing symmetries (f(ρz) = -ρ f(z))",
        *([_images(system, rho) for rho in system.reversing_symmetries] or ["none declared"]),
    )
    section("Divergence", expression_unicode("div f", system.equations.divergence.expand(), width))
    if system.defaults:
        section("Suggested", ", ".join(f"{k} {v:g}" for k, v in system.defaults.items()))


def _value(value: Any) -> str:
    return ", ".join(f"{v:.6g}" for v in value) if isinstance(value, list) else f"{value:.6g}"


def _images(system: Any, rho: Any) -> str:
    """``(z1, z2, z3) -> (-z1, z2, z3)``."""
    names = system.components

    def row(coefficients: Any) -> str:
        terms = [
            f"{'-' if c < 0 else '+'}{'' if abs(c) == 1 else f'{abs(c):g} '}{name}"
            for c, name in zip(coefficients, names, strict=True)
            if c
        ]
        return " ".join(terms).removeprefix("+") or "0"

    return f"({', '.join(names)}) → ({', '.join(row(r) for r in rho)})"


if __name__ == "__main__":
    main()
