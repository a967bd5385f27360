"""Rollouts of families with parameters that change from step to step, such as inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from vpintegrator.arguments import check_integrator, of_kind, real_array, shown
from vpintegrator.errors import InputError
from vpintegrator.renamed import former_arguments
from vpintegrator.rollout.neural import advanced, compile_for, evaluating

if TYPE_CHECKING:
    from vpintegrator.models import Integrator

_WORTH = 2_000  # steps from which on compiling pays


@former_arguments(conditions="parameters")
def rollout_driven(
    model: Integrator, initial: Any, parameters: Mapping[str, Any], compiled: bool | None = None
) -> np.ndarray:
    """Iterate a family of one-step maps with parameters that change from step to step.

    Use it for irregular times, where the step changes, and for systems with an input. An input held
    constant over a step (zero-order hold) is one of the parameters.

    Parameters
    ----------
    model
        A trained family that reads one state.
    initial
        First states (trajectory, n).
    parameters
        Values of the parameters, by name: of each step (step,), of each trajectory and step
        (trajectory, step), or one number for all. Parameters that are not named have the values of
        the system.
    compiled
        Whether to run the model as machine code, by default from 2,000 steps on.

    Returns
    -------
    ndarray
        States (trajectory, step + 1, n), including the first states.

    Raises
    ------
    InputError
        If the model is no family or reads several states, a parameter is unknown or missing, or
        shapes do not fit.

    Examples
    --------
    >>> states = vp.rollout.rollout_driven(  # doctest: +SKIP
    ...     model, initial, {"step": np.diff(times), "torque": torque[:-1]}
    ... )
    """
    check_integrator(model)
    of_kind("parameters", parameters, Mapping, "a dictionary of values for each step")
    initial = real_array("initial", initial, None)
    import torch

    if model.window != 1:
        raise InputError(
            f"the model {model.name} reads {model.window} states a step apart; parameters "
            "change from step to step for models that read one"
        )
    values = {name: _values(name, value) for name, value in parameters.items()}
    lengths = {value.shape[-1] for value in values.values() if value.ndim}
    if len(lengths) != 1:
        raise InputError(
            "parameters must have values for each step, as many of one as of another, not for "
            f"{', '.join(map(str, sorted(lengths))) or 'none'}"
        )
    (steps,) = lengths
    first = torch.as_tensor(np.asarray(initial, dtype=float)).to(model.scale)
    if first.ndim != 2:
        raise InputError(f"initial states have the shape (trajectory, n), not {tuple(first.shape)}")
    count, n = first.shape
    wide = {
        name: np.broadcast_to(value, (count, steps)) if value.ndim != 1 else value[None]
        for name, value in values.items()
        if value.ndim < 2 or value.shape == (count, steps)
    }
    if len(wide) < len(values):
        name = next(name for name in values if name not in wide)
        raise InputError(
            f"{name} must have the shape (step,) or (trajectory, step) = ({count}, {steps}), not "
            f"{values[name].shape}"
        )
    # all at once: a warning is given once, and a mistake before anything is computed
    k = model.extended(first.unsqueeze(1).expand(-1, steps, -1), **wide)[..., n:]
    states = first.new_empty(count, steps + 1, n)
    states[:, 0] = first
    windows = torch.cat([first.unsqueeze(1).expand(-1, steps, -1), k], -1).unsqueeze(2)
    if compiled is None and steps < _WORTH:
        compiled = False
    machine = compile_for(model, count, compiled, windows[:, 0])
    with evaluating(model), torch.inference_mode():
        for i in range(steps):
            window = windows[:, i]
            window[:, 0, :n] = states[:, i]
            if machine is not None:
                new = advanced(machine, window, 1)
            else:
                new = model(window)
            states[:, i + 1] = new[:, 0, :n]
    return states.double().cpu().numpy()


def _values(name: Any, value: Any) -> np.ndarray:
    """Return values of a parameter; a single number may stand for all steps."""
    return real_array(f"parameters, {shown(name)}", value, None)
