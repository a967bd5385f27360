"""vp-rollout: compare models and classical integrators."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vpintegrator.arguments import not_negative, positive
from vpintegrator.cli.common import (
    SETTINGS,
    columns_option,
    common_options,
    compiled_option,
    device_option,
    file_options,
    parameter_option,
    read_parameters,
)
from vpintegrator.cli.comparing import compare_methods, methods_named, print_methods
from vpintegrator.errors import InputError

if TYPE_CHECKING:
    from vpintegrator.dynamics import System
    from vpintegrator.models import Model

_TRAJECTORIES = 8  # default
_NUMBERS = {"time": positive, "reference_time": not_negative, "threshold": positive}


@click.command(context_settings=SETTINGS)
@click.argument("methods", nargs=-1, metavar="[MODEL.safetensors|NAME=FILES|METHOD]...")
@click.option(
    "--against",
    metavar="NAME,...",
    help="Classical methods beside the models, adaptive ones with a tolerance if need be "
    "(dop853-1e-10), beside a stroboscopic map with the steps of a period (rk4@64); "
    "'all' for all that apply, 'none' for none.  "
    "[default: implicit-midpoint,rk4; none beside maps, or where the equations are not known]",
)
@click.option("--time", type=float, help="How long to run.  [default: 120, or as the data]")
@click.option(
    "--steps", type=click.IntRange(min=1), help="How many steps to run, instead of --time."
)
@click.option(
    "--every",
    type=click.IntRange(min=1),
    help="Keep every Nth state; all are measured.  [default: at most 10,000 times are kept]",
)
@click.option(
    "--trajectories", type=click.IntRange(min=1), help="Random initial states.  [default: 8]"
)
@click.option(
    "--initial",
    multiple=True,
    metavar="Z1,Z2,...",
    help="An initial state; repeat for several.",
)
@click.option(
    "--dataset",
    type=click.Path(path_type=Path),
    help="Start from the test trajectories of a dataset.  [default for measured data: that of the "
    "training]",
)
@click.option(
    "--reference",
    type=click.Choice(["solution", "dataset"]),
    help="What errors are measured against: an accurate solution, or the trajectories of the "
    "dataset.  [default: a solution where the equations are known]",
)
@click.option(
    "--reference-time",
    type=float,
    metavar="TIME",
    help="End of the accurate reference, and of trajectory errors.  [default: 10,000 steps]",
)
@click.option(
    "--threshold",
    type=float,
    help="Error that counts as failure.  [default: a tenth of the reference's spread]",
)
@click.option(
    "--section",
    default="auto",
    metavar="COMPONENT=VALUE",
    help="Poincare section, such as q[0]=0, or -q[0]=0 for downward crossings; 'none' for none.  "
    "[default: the system file's; q[0]=0 for Hamiltonian systems of two degrees of freedom]",
)
@click.option(
    "--tangent-steps",
    type=click.IntRange(min=0),
    default=200,
    show_default=True,
    help="Steps over which phase-space volume and Lyapunov exponents are followed.",
)
@click.option(
    "--work-precision", is_flag=True, help="Also run each method at several steps: error by cost."
)
@click.option(
    "--system",
    metavar="SYSTEM|FILE.toml|MODULE:NAME",
    help="The system to integrate; MODULE:NAME imports a system or function of your own.  "
    "[default: the one that the models hold]",
)
@click.option(
    "--step",
    type=float,
    help="Time step.  [default: the one that the models hold, or the system's]  Of a family any "
    "in its range.",
)
@parameter_option(
    "Set a parameter of --system or, without it, of a family (-p I1=2.2); repeat for several "
    "parameters; commas for an array of --system (m=2,1)."
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Of random initial states.",
)
@device_option("Where models run.")
@compiled_option(
    "Run models, and explicit and splitting methods, as machine code, ten to hundreds of times "
    "faster; auto wherever possible; models on a GPU run in PyTorch."
)
@file_options("HDF5 file to write.  [default: SYSTEM-rollout.h5]")
@click.option(
    "--list-methods",
    is_flag=True,
    help="List the classical methods, with order and structure; with --system, those that apply.",
)
@columns_option
@common_options
def main(
    methods: tuple[str, ...],
    against: str | None,
    initial: tuple[str, ...],
    system: str | None,
    parameters: tuple[str, ...],
    step: float | None,
    output: Path | None,
    overwrite: bool,
    list_methods: bool,
    **options: Any,
) -> None:
    """Let trained models and classical integrators run side by side, and compare them.

    All start from the same states and take the same step. Each is compared with an accurate
    solution, or, where the equations are not known, with the measured trajectories; the table shows
    the error, the drift of the invariants, the volume error and the time a step takes. Everything
    is written to a rollout file for vp-plot.

    The arguments are models, and classical methods beside those of --against. NAME=FILES names the
    models of all files of a pattern, such as trainings with several seeds: they are one row of the
    table, with medians over the models, and one curve with a band. A rollout may take millions of
    steps: each is measured, some are kept.

    \b
    Examples:
      vp-rollout vpt.safetensors --against implicit-midpoint,rk4 --time 120
      vp-rollout a.safetensors b.safetensors --initial 0,0.6,0.8 -o comparison.h5
      vp-rollout VPT=vpt-*.safetensors RK4 --time 120
      vp-rollout toda-spff.safetensors -p n=64        # trained with n = 8
      vp-rollout family.safetensors --step 0.1 -p I1=2.2    # trained with --vary
      vp-rollout --system pendulum --against all --steps 1000000 --work-precision
    """
    given = None if system is None else _load_system(system, parameters)
    other = read_parameters(parameters) if given is None else {}
    if list_methods:
        print_methods(given)
        return
    options = {name: value for name, value in options.items() if value is not None}
    if step is not None:
        options["step"] = positive("step", step)
    models, named = _models_and_methods(methods)
    if named:
        against = ",".join([*named, *(methods_named(against) or [])])
    _check(models, given, parameters, initial, options)
    _check_methods(methods_named(against) or [])
    if initial:
        options["initial"] = _numbers(initial)
    loaded = _load_models(models, options)
    if any(model.conditions for members in loaded.values() for model in members):
        loaded = _at_parameters(loaded, step, other, given)
    elif loaded and other:
        raise InputError(
            f"-p {next(iter(other))}: these models are no families, and have the parameters of "
            "their training"
        )
    compare_methods(loaded, given, against, output, overwrite, options)


def _models_and_methods(arguments: tuple[str, ...]) -> tuple[dict[str, list[Path]], list[str]]:
    """Return files of models by name, and names of classical methods."""
    from vpintegrator.names import CLASSICAL_METHODS

    models: dict[str, list[Path]] = {}
    methods = []
    for argument in arguments:
        name, equals, pattern = argument.partition("=")
        path = Path(argument)
        if equals and not path.exists():
            paths = sorted(map(Path, glob.glob(pattern)), key=lambda p: (len(p.name), p.name))
            if not name or not paths:
                raise InputError(f"{argument}: there is no file {pattern}; expected NAME=FILES")
            models.setdefault(name, []).extend(paths)
        elif not path.exists() and argument.lower().partition("@")[0] in CLASSICAL_METHODS:
            methods.append(argument.lower())
        elif path.stem in models:
            raise InputError("two of the model files have the same name; rename one")
        else:
            models[path.stem] = [path]
    return models, methods


def _check(
    models: dict[str, list[Path]],
    given: System | None,
    parameters: tuple[str, ...],
    initial: tuple[str, ...],
    options: dict[str, Any],
) -> None:
    """Whether the options go together."""
    if not models and given is None:
        raise InputError(
            "name a trained model, or a system with --system"
            + (", whose parameter is set by --parameter" if parameters else "")
        )
    if "time" in options and "steps" in options:
        raise InputError("give --time or --steps, not both")
    for name, check in _NUMBERS.items():
        if name in options:
            check(name, options[name])
    if initial and ("dataset" in options or "trajectories" in options):
        raise InputError("give initial states by one of --initial, --dataset and --trajectories")
    if initial and options.get("reference") == "dataset":
        raise InputError("--reference dataset starts from the dataset; leave out --initial")


def _check_methods(named: list[str]) -> None:
    """Whether there are the methods that are named, before any file is opened."""
    from vpintegrator.rollout import find_method

    for name in named:
        if name != "all":
            find_method(name.partition("@")[0])


def _load_models(paths: dict[str, list[Path]], options: dict[str, Any]) -> dict[str, list[Model]]:
    """Load the models on the device asked for, and remove the device from the options."""
    device = options.pop("device")
    if not paths:  # nothing else needs PyTorch, which takes seconds to import
        if device != "cpu":
            raise InputError(f"--device {device}: models alone run on other devices than the CPU")
        return {}
    from vpintegrator.models import load
    from vpintegrator.runtime.devices import check_device

    check_device(device, "--device")
    return {name: [load(path, device) for path in files] for name, files in paths.items()}


def _at_parameters(
    models: dict[str, list[Model]],
    step: float | None,
    parameters: dict[str, Any],
    system: System | None,
) -> dict[str, list[Model]]:
    """Return families at the step and parameters that are asked for, or those of the system."""
    single = [model for members in models.values() for model in members]
    ranges = [model.conditions["step"] for model in single if "step" in model.conditions]
    if ranges and step is None:
        low, high = ranges[0]
        raise InputError(f"this family takes any step from {low:g} to {high:g}: name it by --step")
    for name, given in parameters.items():
        if not isinstance(given, int | float):
            raise InputError(f"-p {name}={given}: expected a number")
    asked = ({"step": step} if ranges else {}) | parameters
    own = {} if system is None else system.parameters
    return {
        name: [
            model.at(**{n: own[n] for n in model.conditions if n in own}, **asked)
            if model.conditions
            else model
            for model in members
        ]
        for name, members in models.items()
    }


def _numbers(states: tuple[str, ...]) -> list[list[float]]:
    try:
        rows = [[float(x) for x in state.split(",")] for state in states]
    except ValueError:
        raise InputError(
            f"--initial {' '.join(states)}: expected numbers as in 0,0.6,0.8"
        ) from None
    if len({len(row) for row in rows}) > 1:
        raise InputError(f"--initial {' '.join(states)}: the states differ in length")
    return rows


def _load_system(name: str, parameters: tuple[str, ...]) -> System:
    from vpintegrator.cli.own_code import load_system_asked

    return load_system_asked(name, read_parameters(parameters))


if __name__ == "__main__":
    main()
