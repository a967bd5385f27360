"""Inference of constants from contexts: reports of vp-train, and --context of vp-rollout."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vpintegrator.cli.common import tell
from vpintegrator.errors import InputError

if TYPE_CHECKING:
    from vpintegrator.data import Dataset
    from vpintegrator.models import Integrator

_LENGTHS = (2, 4, 8)  # states of contexts
_TRAJECTORIES = 200


def tell_inference(model: Integrator, data: Dataset) -> None:
    """Say how well constants are inferred from a few states of test trajectories."""
    from vpintegrator.training.context_errors import context_errors

    try:
        found = context_errors(model, data, _LENGTHS, _TRAJECTORIES)
    except InputError as error:
        tell(f"  parameters are not inferred: {error}")
        return
    if not found:
        return
    lengths = ", ".join(str(each.length) for each in found)
    tell(
        f"  next state from {lengths} states of a test trajectory with unknown parameters: "
        f"relative error {', '.join(f'{each.error:.1e}' for each in found)}"
    )
    last = found[-1]
    if last.parameters:
        words = ", ".join(f"{name} to {error:.1e}" for name, error in last.parameters.items())
        tell(f"  parameters from {last.length} states (median): {words}")
    elif last.unknown:
        tell(f"  {last.unknown}")


def families_at_context(
    models: Mapping[str, Integrator], path: Path, options: dict[str, Any]
) -> dict[str, Integrator]:
    """Return the member of each family that matches the states in a file.

    The last of the states becomes the initial state.

    Raises
    ------
    InputError
        If the file is no table of states, or a model is no family.
    """
    from vpintegrator.data.importing.tables import read_table
    from vpintegrator.rollout.start import find_system

    if "initial" in options or "dataset" in options:
        raise InputError("--context holds the initial state; leave out --initial and --dataset")
    components = find_system(models, None).components
    table = read_table(path, ",".join(components))
    if len(table.states) != 1:
        raise InputError(f"{path} holds {len(table.states)} trajectories; a context is of one")
    times = None if table.times is None else table.times[0]
    found = {}
    for name, model in models.items():
        if not model.conditions:
            raise InputError(
                f"--context infers the parameters of a family, and {name} is none; train it on "
                "data of many parameters (vp-gen --vary)"
            )
        if "step" in model.conditions and "step" not in options:
            raise InputError("this family takes any step: name that of the rollout by --step")
        inferred = model.infer(table.states[0], times, undetermined=True)
        tell(f"{name}: {inferred!r}")
        values = dict(zip(inferred.names, inferred.values.tolist(), strict=True))
        if "step" in model.conditions:
            values["step"] = options["step"]
        found[name] = model.at(**values)
        options["initial"] = [inferred.state.tolist()]
    return found
