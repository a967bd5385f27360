"""Ensembles in vp-rollout: statistics of very many trajectories of one map."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vpintegrator.cli.common import Options, progress_bar, tell, worker_options
from vpintegrator.cli.output import write_json
from vpintegrator.cli.sweeping import refuse_others
from vpintegrator.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    from vpintegrator.dynamics import System
    from vpintegrator.models import Integrator
    from vpintegrator.rollout import EnsembleStatistics, NumericalFlow

_STEPS = 1000
_SHARED = {"ensemble", "steps", "time", "step", "seed", "compiled"}

ensemble_options = Options(
    click.option(
        "--ensemble",
        type=click.IntRange(min=1),
        metavar="N",
        help="Follow N trajectories of one map and keep statistics alone: where they have been, "
        "when each left, how it turns.",
    ),
    worker_options(
        "Ensembles: processes on this machine; they change no number.  [default: 1]",
        "Ensembles: a dask scheduler, tcp://HOST:8786 or its file, whose workers share this disk.",
    ),
    click.option(
        "--plane",
        metavar="X,Y",
        help="Ensembles: two components.  [default: a canonical pair, or the first two]",
    ),
    click.option(
        "--view",
        metavar="X=A:B,Y=C:D",
        help="Ensembles: the part of the plane that is seen.  [default: what a trial run fills]",
    ),
    click.option(
        "--resolution",
        metavar="CELLS",
        help="Ensembles: cells of the view on a side, or 1600x900.  [default: 1024]",
    ),
    click.option(
        "--escape",
        metavar="EXPRESSION",
        help="Ensembles: where a trajectory has left, such as 'q**2 + p**2 > 0.1'; 'never'.  "
        "[default: beyond what the model was trained on]",
    ),
    click.option(
        "--rotation",
        metavar="X,Y|ANGLE|none",
        help="Ensembles: the centre of turns in the plane, or a component that is an angle.  "
        "[default: a component that is an angle, else an elliptic "
        "fixed point]",
    ),
)
_OWN = {*ensemble_options.names}


def refuse_ensemble_options(options: dict[str, Any]) -> None:
    """Refuse those that mean nothing without --ensemble."""
    if given := [f"--{name}" for name in sorted(_OWN & options.keys())]:
        raise InputError(f"{', '.join(given)}: for ensembles; add --ensemble N")


def run_ensemble(
    models: dict[str, Integrator],
    given: System | None,
    methods: list[str] | None,
    initial: tuple[str, ...],
    output: Path | None,
    overwrite: bool,
    resume: bool,
    options: dict[str, Any],
) -> None:
    """Follow an ensemble, write its statistics, and say them."""
    from vpintegrator.rollout import EnsembleMeasures, ensemble
    from vpintegrator.runtime.interrupts import terminate_as_interrupt
    from vpintegrator.storage.files import safe_name
    from vpintegrator.storage.shard_folder import folder_of

    refuse_others(options, _SHARED | _OWN, "not for an ensemble")
    flow, system = _flow(models, given, methods, options.get("step"))
    measured: dict[str, Any] = {
        n: options[n] for n in ("plane", "view", "escape", "rotation") if n in options
    }
    if "resolution" in options:
        measured["resolution"] = _resolution(options["resolution"])
    steps = options.get("steps", _STEPS)
    if "time" in options:
        steps = max(round(options["time"] / flow.step), 1)
    path = output or Path(f"{safe_name(system.name, 'model')}-ensemble.h5")
    states = _states(initial, options["ensemble"], system) if initial else options["ensemble"]
    terminate_as_interrupt()
    try:
        with progress_bar() as bar:
            task = bar.add_task(flow.name, total=None)
            found = ensemble(
                flow,
                path,
                initial=states,
                steps=steps,
                measures=EnsembleMeasures(**measured),
                overwrite=overwrite,
                resume=resume,
                progress=lambda done, total: bar.update(task, completed=done, total=total),
                **{
                    n: options[n]
                    for n in ("seed", "workers", "scheduler", "compiled")
                    if n in options
                },
            )
    except KeyboardInterrupt:
        kept = len(list(folder_of(path).glob("*.h5")))
        tell(
            f"interrupted, nothing is lost: {folder_of(path)} holds {kept} finished parts; the "
            "same command with --resume goes on"
            if kept
            else "interrupted; nothing was written"
        )
        raise SystemExit(130) from None
    _say(found, options.get("rotation", "auto"))
    tell(f"written to {path}; draw it with: vp-plot {path}")
    write_json(lambda: {"output": path, "table": found.table()})


def _flow(
    models: dict[str, Integrator],
    given: System | None,
    methods: list[str] | None,
    step: float | None,
) -> tuple[NumericalFlow, System]:
    """Return the one map asked for, and its system."""
    from vpintegrator.rollout import ExactMap, as_flow
    from vpintegrator.rollout.flow import LearnedFlow
    from vpintegrator.rollout.start import find_system

    if given is not None and given.is_discrete and not models and not methods:
        return ExactMap(given), given
    if len(models) + len(methods or ()) != 1:
        raise InputError(
            "an ensemble is of one map: one model, or --system with one method (--against rk4)"
        )
    if models:
        ((name, model),) = models.items()
        system = find_system(models, given)
        return LearnedFlow(model, system, name, step), system
    assert given is not None
    assert methods is not None
    if step is None:
        step = given.defaults.get("step")
    if step is None:
        raise InputError("give the time step by --step")
    return as_flow(methods[0], given, float(step)), given


def _resolution(text: str) -> int | tuple[int, int]:
    try:
        parts = [int(part) for part in text.split("x")]
    except ValueError:
        parts = []
    if len(parts) not in (1, 2):
        raise InputError(f"--resolution {text}: expected cells on a side, or as in 1600x900")
    return parts[0] if len(parts) == 1 else (parts[0], parts[1])


def _states(texts: tuple[str, ...], count: int, system: System) -> np.ndarray:
    """Return ``count`` states evenly along ranges such as ``0:0.5,0``; a grid for two ranges."""
    import numpy as np

    what = f"--initial {' '.join(texts)}"
    parts = texts[0].split(",")
    try:
        ends = [[float(x) for x in part.split(":")] for part in parts]
    except ValueError:
        ends = []
    ranged = [k for k, each in enumerate(ends) if len(each) == 2 and each[0] != each[1]]
    if len(texts) > 1 or not 1 <= len(ranged) <= 2 or any(len(each) not in (1, 2) for each in ends):
        raise InputError(
            f"{what}: for an ensemble, give one state in which one component or two are ranges, as "
            "in 0:0.5,0"
        )
    if len(ends) != system.dim:
        raise InputError(f"{what}: states of {system.name} are {', '.join(system.components)}")
    sides = [count] if len(ranged) == 1 else [round(count**0.5) or 1] * 2
    axes = [np.linspace(ends[k][0], ends[k][1], n) for k, n in zip(ranged, sides, strict=True)]
    states = np.tile([each[0] for each in ends], (int(np.prod(sides)), 1))
    for k, values in zip(ranged, np.meshgrid(*axes, indexing="ij"), strict=True):
        states[:, k] = values.ravel()
    return states


def _say(found: EnsembleStatistics, rotation: str) -> None:
    """Print how many trajectories left, and the rotation numbers if they were asked for."""
    row = found.table()[0]
    count, steps = row["trajectories"], row["steps"]
    tell(
        f"{found.title}: {count:,} trajectories of {steps:,} steps of {found.step:g}, "
        f"{row['states']:,} states"
    )
    gone = int((found.left >= 0).sum())
    if gone:
        tell(
            f"{gone:,} left ({found.plan.escape.words}), half of these by step "
            f"{row['median_left']:,.0f}; {row['confined']:.4%} stay"
        )
    else:
        tell(f"none left ({found.plan.escape.words})")
    if found.domain_words:
        tell(found.domain_words)
    if found.rotation is not None and gone < count:
        tell(
            f"turns per step {found.plan.centre_words}: from {row['rotation_from']:.6g} to "
            f"{row['rotation_to']:.6g}; {row['regular']:.2%} of all are regular, their halves "
            f"agree within {row['tolerance']:.1e}, the tolerance of {steps:,} steps; "
            f"{found.length_words}"
        )
    elif found.rotation is None and rotation == "auto" and not found.plan.is_canonical:
        tell(
            f"no turns: ({', '.join(found.plan.names)}) is no coordinate with its momentum; "
            "--rotation takes a point, for turns of the projection, or an angle"
        )
