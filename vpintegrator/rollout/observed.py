"""Complete states behind observed ones: where classical methods run, and what is seen of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from vpintegrator.dynamics import Family, System
from vpintegrator.dynamics.family import STEP
from vpintegrator.dynamics.structure import component_scales
from vpintegrator.errors import InputError

if TYPE_CHECKING:
    from vpintegrator.data import Dataset


@dataclass(frozen=True, kw_only=True)
class CompleteStates:
    """Complete states behind the orbits of observed data, which no training reads.

    Every map of complete states is seen through ``observe``. A parameter or a step that differs
    from orbit to orbit and is not told is one more component of the state, which stays as it is.

    Attributes
    ----------
    base
        The system, as the recipe of the data names it.
    system
        The same with such components.
    observe
        Function of states (..., dim) that gives the observed components.
    components
        Numbers of the observed components, in their order; empty where one is a function.
    carried
        Number of components at the end of the states that stay as they are.
    states
        States of the orbits in the file, (trajectory, time, dim).
    motion
        Solution from the first of them, (time, trajectory, dim), or else these states.

    Examples
    --------
    >>> data = vp.generate("pendulum", "q.h5", count=10, observe={"components": ["q"]},
    ...                    overwrite=True)
    >>> complete = vp.rollout.observed.complete_states(data, np.arange(2))
    >>> complete.system.components, complete.observe(complete.states).shape
    (('q', 'p'), (2, 11, 1))
    """

    base: System
    system: System
    observe: Callable[[np.ndarray], np.ndarray]
    components: tuple[int, ...]
    carried: int
    states: np.ndarray
    motion: np.ndarray

    @property
    def initial(self) -> np.ndarray:
        """First states of the orbits, (trajectory, dim)."""
        return self.states[:, 0]

    @cached_property
    def scales(self) -> np.ndarray:
        """Scale of each component along the solution, (dim,)."""
        every = -(-len(self.motion) // 1000)
        return component_scales(self.motion[::every], self.system.structure)


def complete_system(dataset: Dataset, observed: System) -> CompleteStates | None:
    """Return the system behind observed data, without states; None where there is none.

    Parameters
    ----------
    dataset
        The data.
    observed
        The system of observed states, with the parameters that are told.

    Raises
    ------
    InputError
        If the data have other components.
    """
    base = dataset.complete_system
    if base is None:
        return None
    if dataset.system.components != observed.components:
        raise InputError(
            f"{dataset.path} holds {', '.join(dataset.system.components[:8])}, but the models are "
            f"of {', '.join(observed.components[:8])}; give the data of their kind"
        )
    told = {n: value for n, value in observed.parameters.items() if n in dataset.varied}
    base = base.with_parameters(told) if told else base
    observation = dataset.observation
    texts = [*observation.quantities(base).values()]
    system = base
    if observation.hide:
        is_varied = STEP in observation.hide
        family = Family(base, observation.hide, None if is_varied else 1.0)
        system = family.carried(dataset.step if is_varied else None)
    named = replace(observation, components=tuple(texts))
    places = {name: k for k, name in enumerate(system.components)}
    plain = all(text in places for text in texts)
    return CompleteStates(
        base=base,
        system=system,
        observe=named.function(system),
        components=tuple(places[text] for text in texts) if plain else (),
        carried=system.dim - base.dim,
        states=np.empty((0, 0, system.dim)),
        motion=np.empty((0, 0, system.dim)),
    )


def complete_states(
    dataset: Dataset, trajectories: np.ndarray, observed: System | None = None
) -> CompleteStates:
    """Return the complete states behind test trajectories of observed data.

    Parameters
    ----------
    dataset
        The data.
    trajectories
        Numbers of test trajectories, increasing.
    observed
        The system of observed states, with the parameters that are told; by default that of the
        dataset.

    Raises
    ------
    InputError
        If the dataset holds no complete states.
    """
    behind = complete_system(dataset, observed or dataset.system)
    if behind is None:
        raise InputError(f"{dataset.path} holds no other states than those of its groups")
    states = dataset.complete_states("test", trajectories)
    if behind.carried:
        values = dataset.complete_conditions("test", trajectories)
        hidden = np.stack(
            [values[name] for name in behind.system.components[-behind.carried :]], -1
        )
        columns = np.broadcast_to(hidden[:, None], (*states.shape[:2], behind.carried))
        states = np.concatenate([states, columns], -1)
    return replace(behind, states=states, motion=states.transpose(1, 0, 2))
