"""A trained model for another number of bodies than it was trained with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from vpintegrator.arguments import check_integrator
from vpintegrator.dynamics import System
from vpintegrator.dynamics.body_identities import reach
from vpintegrator.dynamics.training_domain import Domain, Range
from vpintegrator.errors import InputError
from vpintegrator.rollout.start import find_system

if TYPE_CHECKING:
    from vpintegrator.models import Integrator

_STATES = 4  # at which forces are compared
_TOLERANCE = 1e-9  # relative to the largest force


def with_parameters(model: Integrator, /, **parameters: Any) -> Integrator:
    """Return a model with the same weights for another number of bodies.

    Parameters
    ----------
    model
        A trained model of like bodies, which says what system it was trained on.
    **parameters
        Parameters of the system that set the number of bodies. All other parameters must stay as
        they were in the training; the forces on bodies are compared to check this.

    Returns
    -------
    Integrator
        It says that it belongs to the system with these parameters, and bounds of single bodies are
        those of all in the training.

    Raises
    ------
    InputError
        If the system has no such parameters, they change more than the number of bodies, or the
        model is none of like bodies.

    Examples
    --------
    >>> toda = vp.load_system("toda", n=4)
    >>> model = vp.models.build(toda, "spff")
    >>> model.metadata |= {"system": toda.text, "parameters": '{"n": 4}'}  # training does that
    >>> vp.rollout.with_parameters(model, n=64).dim
    128
    """
    check_integrator(model)
    from vpintegrator.models import with_bodies

    system = find_system({"of this training": model}, None)
    given = {**system.definitions, **parameters}
    other = System(system.text, system.name, given, source=system.name)
    changed = [name for name, value in other.parameters.items() if value != system.parameters[name]]
    if not changed:
        return model
    what = f"the model was trained with {_listed(changed, system)}, and {_listed(changed, other)}"
    if system.bodies is None or other.bodies is None or system.bodies.count == other.bodies.count:
        raise InputError(
            f"{what} would not change the number of bodies; a model is right for the parameters "
            "that it was trained with"
        )
    if (deviation := _deviation(system, other)) > _TOLERANCE:
        raise InputError(
            f"{what} would change more than the number of bodies: the force on one by "
            f"{deviation:.2g} times the largest"
        )
    result = with_bodies(model, other.bodies.count)
    result.metadata["parameters"] = json.dumps(other.definitions)
    if "region" in model.metadata:
        region = Domain.from_text(model.metadata["region"], "the training domain of the model")
        result.metadata["region"] = _domain(region, system, other).text
    return result


def _listed(names: list[str], system: System) -> str:
    return ", ".join(f"{name} = {_value(system.parameters[name])}" for name in names)


def _value(value: Any) -> str:
    return ", ".join(f"{v:g}" for v in value[:8]) if isinstance(value, list) else f"{value:g}"


def _deviation(system: System, other: System) -> float:
    """Return the change of forces with the number of bodies, relative to the largest force.

    For bodies in a row the comparison uses bodies that only the first end of the row affects. For
    other bodies it uses the action of two bodies on each other and of each body on itself.
    """
    smaller, larger = sorted((system, other), key=lambda each: each.dim)
    small, large = smaller.bodies, larger.bodies
    assert small is not None and large is not None
    states = [_states(each) for each in (smaller, larger)]
    states[1][:, :, : small.count] = states[0]
    flat = [z.reshape(_STATES, -1) for z in states]
    with np.errstate(all="ignore"):
        if small.topology == "pairs":
            found = [_derivatives(*each) for each in zip((smaller, larger), flat, strict=True)]
        else:
            far = reach(smaller.equations, small)
            first = far if small.topology == "ring" else 0
            found = [
                each.vector_field(z).reshape(_STATES, 2, -1, small.dimension)
                for each, z in zip((smaller, larger), flat, strict=True)
            ]
            found = [rates[:, :, first : small.count - far] for rates in found]
    if not found[0].size:
        return 0.0
    return float(np.abs(found[1] - found[0]).max() / (np.abs(found[0]).max() or 1.0))


def _states(system: System) -> np.ndarray:
    """Return states (state, array, body, component), from the system's distribution if any."""
    bodies, random = system.bodies, np.random.default_rng(20231219)
    assert bodies is not None
    try:
        states = system.sample_initial(_STATES, random)
    except InputError:  # none are suggested, or for another number of bodies
        states = random.normal(size=(_STATES, system.dim))
    return states.reshape(_STATES, 2, bodies.count, bodies.dimension)


def _derivatives(system: System, states: np.ndarray) -> np.ndarray:
    """Return derivatives of the rates of the first body.

    The derivatives are those by its own momentum and by the state of the second body.
    """
    bodies = system.bodies
    assert bodies is not None
    d, half = bodies.dimension, bodies.count * bodies.dimension
    jacobian = system.jacobian(states)
    own = jacobian[:, :d, half : half + d]
    if bodies.count == 1:
        return own
    second = [*range(d, 2 * d), *range(half + d, half + 2 * d)]
    first = [*range(d), *range(half, half + d)]
    between = jacobian[:, first][:, :, second]
    return np.concatenate([own.reshape(_STATES, -1), between.reshape(_STATES, -1)], axis=1)


def _domain(region: Domain, system: System, other: System) -> Domain:
    """Return the bounds for each body of ``other``: those of all bodies in the training.

    Bounds of positions are left out if the system is invariant under translations.
    """
    bodies = system.bodies
    assert bodies is not None
    if bodies.translations:
        names = system.components[system.dim // 2 :]
        region = Domain({k: v for k, v in region.components.items() if k in names}, {})
    bounds: dict[tuple[bool, int], Range] = {}
    for name, kind in _components(system):
        if name in region.components:
            low, high = region.components[name]
            least, most = bounds.get(kind, (low, high))
            bounds[kind] = min(least, low), max(most, high)
    components = {name: bounds[kind] for name, kind in _components(other) if kind in bounds}
    return Domain(components, {})


def _components(system: System) -> Iterator[tuple[str, tuple[bool, int]]]:
    """Yield names of components, with their array and the component of the vector."""
    assert system.bodies is not None
    for i, name in enumerate(system.components):
        yield name, (i < system.dim // 2, i % system.bodies.dimension)
