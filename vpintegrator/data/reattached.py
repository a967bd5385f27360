"""Whether a system, such as one of a Python function, gives the trajectories of a dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vpintegrator.dynamics import System, solve
from vpintegrator.errors import InputError

if TYPE_CHECKING:
    from vpintegrator.data.dataset import Dataset

_TRAJECTORIES, _STEPS = 4, 3
_TOLERANCE = 1e-6  # relative to the size of states: other solvers, and tolerances of recipes
_SIGMAS = 6  # standard deviations of the noise


def check_reproduces(dataset: Dataset, system: System) -> None:
    """Check that a system gives the first states of a dataset again.

    Parameters
    ----------
    dataset
        The dataset.
    system
        The system, with the parameters of the dataset.

    Raises
    ------
    InputError
        If it has other components, or gives other states; the message says by how much.
    """
    if dataset.varied:
        raise InputError(
            f"every trajectory of {dataset.path} has its own {', '.join(dataset.varied)}; a system "
            "is put beside trajectories that have the same"
        )
    stored = dataset.system
    if system.components != stored.components:
        raise InputError(
            f"{system.name} has the components {', '.join(system.components[:8])}, but states of "
            f"{dataset.path} have {', '.join(stored.components[:8])}"
        )
    if system.is_measured:
        raise InputError(f"the equations of {system.name} are not known; give its function")
    group = next(name for name, shape in dataset.shapes.items() if shape[0] and shape[1])
    count = min(_STEPS + 1, dataset.shapes[group][1])
    states = dataset.states(group, slice(_TRAJECTORIES), slice(count))
    known = states[np.isfinite(states).all(axis=(1, 2))]
    if not len(known):
        return
    times = dataset.times(group)[:count]
    times = np.rint(times - times[0]) if system.is_discrete else times - times[0]
    try:
        found = solve(system, known[:, 0], times)
    except InputError as error:
        raise InputError(
            f"{system.name} does not give the trajectories of {dataset.path}: {error}"
        ) from None
    allowed = _TOLERANCE * (1 + np.abs(known).max())
    if dataset.noise is not None:
        allowed = allowed + _SIGMAS * (1 + np.sqrt(count)) * np.asarray(dataset.noise)
    excess = np.abs(found - known) - allowed
    if (excess > 0).any():
        _, k, i = np.unravel_index(int(np.argmax(excess)), excess.shape)
        defect = np.abs(found - known).max()
        raise InputError(
            f"{system.name} does not give the trajectories of {dataset.path}: after {k} steps "
            f"{system.components[i]} differs by {defect:.3g}; give the function, and the "
            "parameters, that they were made with"
        )
