"""States at which the claims of a system are judged: those of its domain, and orbits from there.

The domain is that of ``[initial_conditions]``. An identity between analytic formulas that holds at
a few generic states holds everywhere. Absolute values, comparisons and functions that vanish but
for rounding may break a claim in a part of the domain: then many states of the domain, with some
of its corners, and of orbits, on both sides of each branch, are looked at in double precision, and
the claims are judged where they fail most.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from vpintegrator.dynamics.claims import (
    POINTS,
    Claim,
    TrialStates,
    claims_of,
    exact_states,
    symmetry_claim,
)
from vpintegrator.dynamics.crossings import coarse_states
from vpintegrator.dynamics.equations import DoubleFormulas, Equations, stack_rows
from vpintegrator.dynamics.expressions.nodes import Call, Expression
from vpintegrator.dynamics.formula_map import FormulaMap
from vpintegrator.dynamics.initial_conditions import InitialConditions
from vpintegrator.dynamics.properties import Definition, SystemProperties
from vpintegrator.errors import InputError

MOST_STATES = 512
_OPERATIONS = 1_000_000  # of formulas at all states, beyond which fewer states are taken
_FEWEST_STATES = 32
_THIN = ("points", "curves", "sphere", "energy-shell")  # distributions that fill no volume
_JITTER = 0.01  # change of their states, relative to the spread, that makes them generic
_CORNERS = 16  # states in corners of a box, where a branch may be
# orbits, and steps of each at most
_ORBITS = 16
_STEPS = 100
_FEW_STEPS = 30  # steps of orbits whose length is not known
_STAGES = 12  # evaluations of the vector field in a step
_TOLERANCE = 1e-4  # relative, of these steps: where orbits lead to, not how
_FAR = 100.0  # size of states, relative to the initial ones, beyond which an orbit has escaped
_WORST = 3  # states of each claim that are judged
# search for the other side of at most 64 branches
_ROUNDS = 10
_PROPOSALS = 64
_BRANCHES = 64
_BRANCHING = {"abs", "sign"}


def trial_of(definition: Definition) -> TrialStates:
    """Return states of the domain of a system at which its claims are judged."""
    e = definition.equations
    nodes = e.nodes
    if not e.is_local:
        states = domain_states(definition, POINTS)
        return TrialStates(e, None if states is None else exact_states(states))
    affordable = _OPERATIONS // (len(nodes) + 1)
    count = int(np.clip(affordable, _FEWEST_STATES, MOST_STATES))
    domain = None
    states = domain_states(definition, count)
    if states is None:
        states = np.random.default_rng(20231219).normal(size=(count, len(e.symbols)))
    else:

        def rates(components: np.ndarray) -> np.ndarray:
            values: np.ndarray = stack_rows(e.field.by_component(components), components[0])
            return values

        table = definition.initial_table or {}
        states = np.vstack([states, _other_sides(e, nodes, states, table)])
        image = FormulaMap(e).images if e.stages else rates
        most = affordable // (3 * _STAGES)
        states = np.vstack([states, orbit_states(definition, image, states, most)])
        domain = states.min(axis=0), states.max(axis=0)
    sample = [*_worst_states(e, states, domain), *states[:POINTS]]
    return TrialStates(e, exact_states(np.array(sample)), domain, most=len(sample))


def domain_states(definition: Definition, count: int) -> np.ndarray | None:
    """Return initial states (count, dim) of a system; None where the system suggests none.

    States of distributions that fill no volume are moved a little, so that they are generic.
    """
    table = definition.initial_table
    generator = np.random.default_rng(20231219)
    if table is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            conditions = InitialConditions(SystemProperties(definition), table, definition.source)
            states = conditions.sample(min(count, conditions.available or count), generator)
    except InputError:  # told when the system reads its initial conditions
        return None
    states = np.resize(states, (count, states.shape[1]))
    spread = states.std(axis=0)
    size = np.maximum(spread, np.abs(states).max(axis=0))
    thin = (spread == 0) | (conditions.distribution in _THIN)
    scale = np.where(thin, np.where(size > 0, size, 1.0), 0.0)
    states = states + _JITTER * scale * generator.normal(size=states.shape)
    if conditions.corners is not None and count > POINTS:
        low, high = conditions.corners
        for k in range(1, _CORNERS + 1):  # the first are the box's first and last
            side = generator.integers(0, 2, len(low)) if k > 2 else np.full(len(low), k % 2)
            states[-k, : len(low)] = np.where(side, low, high)
    return states


def orbit_states(
    definition: Definition,
    image: Callable[[np.ndarray], np.ndarray],
    initial: np.ndarray,
    most: int = _STEPS,
    is_map: bool | None = None,
) -> np.ndarray:
    """Return states (state, dim) along some orbits, as long as those of a recipe by default.

    Parameters
    ----------
    definition
        Definition of the system.
    image
        The map of states (state, dim), or the vector field of components (dim, state).
    initial
        Initial states (state, dim).
    most
        Number of steps at most.
    is_map
        Whether the image is that of a map; by default as the definition says.
    """
    defaults = definition.defaults
    rows = initial[np.isfinite(initial).all(axis=1)][:_ORBITS]
    steps = defaults.get("steps", 100)
    step = defaults.get("step", np.inf)
    duration = defaults.get("time", step * steps)
    most = min(most, _STEPS if duration < np.inf else _FEW_STEPS)
    with np.errstate(all="ignore"):
        if definition.equations.is_map if is_map is None else is_map:
            parts = [rows]
            for _ in range(min(most, steps)):
                parts.append(image(parts[-1]))
        else:
            way = coarse_states(image, rows.T, duration, most, _TOLERANCE)
            parts = [state.T for state, _ in way]
        states = np.concatenate(parts)
        moving = states[:, : SystemProperties(definition).phase_dim]
        near = (np.abs(moving) <= _FAR * np.abs(initial).max()).all(axis=1)
    states = states[near]
    return states[:: max(1, 2 * len(states) // MOST_STATES)]


def _worst_states(
    equations: Equations, states: np.ndarray, domain: tuple[np.ndarray, np.ndarray] | None
) -> np.ndarray:
    """Return the states at which the claims fail most, in double precision; the worst first."""
    trial = TrialStates(equations, states, domain, exact=False)
    defects = dict[int, float]()
    if not len(trial.states):
        return states[:0]
    with np.errstate(all="ignore"):
        for claim in claims_of(trial, ""):
            ratios = np.nan_to_num(np.abs(claim.defects) / claim.sizes, nan=-1.0)
            for k in np.argsort(ratios)[-_WORST:]:
                if ratios[k] >= 0:
                    defects[int(k)] = max(defects.get(int(k), 0.0), float(ratios[k]))
    return trial.states[sorted(defects, key=defects.__getitem__, reverse=True)]


def holding_at(definition: Definition, states: np.ndarray, tolerance: float) -> Definition:
    """Return the definition without structure that fails at states, which ``broken`` names.

    Parameters
    ----------
    definition
        Definition of a system with formulas.
    states
        States (state, dim), such as those of a dataset.
    tolerance
        Largest relative defect of structure that holds.
    """
    e = definition.equations
    domain = states.min(axis=0), states.max(axis=0)
    trial = TrialStates(e, states, domain, exact=False)
    broken = list[str]()

    def holds(claim: Claim) -> bool:
        with np.errstate(all="ignore"):
            ratios = np.abs(claim.defects) / claim.sizes
        defect = float(np.nanmax(ratios, initial=0.0))
        if defect > tolerance:
            broken.append(f"{claim.where} fails by {defect:.2g}")
        return defect <= tolerance

    numbered = enumerate(e.reversing_symmetries, start=1)
    rhos = [r for n, r in numbered if holds(symmetry_claim(trial, r, f"reversing symmetry {n}"))]
    forms = {}
    if definition.divergence_free and e.hamiltonian is None:
        forms = {claim.key: holds(claim) for claim in claims_of(trial, "form") if claim.key}
    kept = forms.get("divergence_free", definition.divergence_free)
    canonical = forms.get("symplectic", True) and definition.is_canonical
    equations = replace(e, reversing_symmetries=tuple(rhos))
    if not broken:
        return definition
    weaker = replace(definition, equations=equations, broken=tuple(broken))
    return replace(weaker, divergence_free=kept, is_canonical=canonical)


def _other_sides(
    equations: Equations, nodes: Sequence[Any], states: np.ndarray, table: Mapping[str, Any]
) -> np.ndarray:
    """Return states of a box on sides of branches on which none of the given states lies."""
    calls = [n for n in nodes if isinstance(n, Call)]
    arguments = {n.arguments[0]: None for n in calls if n.function.name in _BRANCHING}
    formulas = [value for value in arguments if isinstance(value, Expression)][:_BRANCHES]
    sides = [states[:0]]
    low = states.min(axis=0)
    high = states.max(axis=0)
    if table.get("distribution") != "uniform":
        return sides[0]
    generator = np.random.default_rng(0)
    for formula in formulas:
        value = DoubleFormulas([formula], equations.symbols)
        heights = value(states)[:, 0]
        if (heights > 0).any() == (heights < 0).any():
            continue
        sign = 1 if (heights > 0).any() else -1
        width = high - low
        best = states[np.nanargmin(sign * heights)]
        for _ in range(_ROUNDS):
            moves = generator.uniform(-1, 1, (_PROPOSALS, len(best)))
            proposals = np.vstack([best, np.clip(best + width * moves, low, high)])
            heights = sign * value(proposals)[:, 0]
            sides.append(proposals[heights < 0])
            best = proposals[np.nanargmin(heights)]
            width = width / 2
    return np.concatenate(sides)
