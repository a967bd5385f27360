"""Initialisation of polynomial couplings by a classical splitting method of the system.

A vector field that is a sum of shears f_1 + ... + f_m is solved by the shears one after the other,
and back again, Strang splitting. A model whose
couplings are these shears equals that method, its initial splitting scheme. Such a model is near
the flow, and least squares find the rest; from the identity they may stall at errors of order one.
The shears are fitted to the vector field at the training states, or to differences of the states if
the equations are not known.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, pairwise

import numpy as np
import torch
from torch.nn.functional import pad

from vpintegrator.data.pairs import Pair
from vpintegrator.dynamics import System
from vpintegrator.models import Model
from vpintegrator.models.growth import attention
from vpintegrator.nn.composition import Composition, Reversible, psi_of
from vpintegrator.nn.exact_flows import partition
from vpintegrator.nn.shears import LinearShear, is_prolongable
from vpintegrator.nn.symmetry import TOLERANCE
from vpintegrator.runtime.interrupts import TimeIsUp
from vpintegrator.training.residuals import relative, relative_error_of
from vpintegrator.training.training_data import TrainingData

# numbers of all components together, and states at least
_NUMBERS = 16_000
_STATES = 200
_LEAST_SINGULAR_VALUE = 1e-11  # relative to the largest: smaller ones only carry rounding
_LEAST_SIZE = 1e-9  # velocity of a component, relative to the fastest
_NEGLIGIBLE = 1e-9  # length of a column that symmetry leaves nothing but rounding of
_MOST_STEPS = 64  # steps of a method within a step of the data


@dataclass(frozen=True)
class InitialState:
    """Initialisation of a model, and the errors of its fit.

    Attributes
    ----------
    method
        Splitting method that initialises the model, in words. Empty if the model is unchanged: its
        error is smaller already, or it is no stack of couplings by polynomials.
    residual
        Relative residual of the fit of the shears to the vector field of the data.
    error
        Relative error of the model, one window ahead.
    """

    method: str = ""
    residual: float = math.inf
    error: float = math.inf


def start_as_splitting(model: Model, data: TrainingData) -> InitialState:
    """Give a model the weights of Strang splitting, if it has no better ones.

    From its short and equal steps training gets furthest; the steps are as many as err least and
    fit into the stack.

    Parameters
    ----------
    model
        Normalised.
    data
        Training data of the model.
    """
    if model.record.initial_scheme:
        return InitialState()
    shears = shears_of(model)
    parts = parts_of(shears)
    reflection = model.core.symmetry if isinstance(model.core, Reversible) else None
    methods = list(compositions(parts, reflection is not None)) if shears else []
    count = max(_STATES, _NUMBERS // model.dim)
    pair = data.pairs(model).sample(count, torch.Generator().manual_seed(0))
    inputs, targets, _ = pair
    if not methods or not bool(torch.isfinite(inputs).all() and torch.isfinite(targets).all()):
        return InitialState()
    # a method that errs more than standing still is none
    scale = data.error_scale
    moved = (targets - inputs[:, -1:])[..., list(scale.components)].square().sum().item()
    error = relative(moved, targets[..., 0].numel(), scale.spread)
    error = min(error, relative_error_of(model, [pair], scale))  # which may be nan
    differences = data.system.is_measured or data.system.is_discrete
    z, velocity = _velocities(model, data, pair, differences)
    fields, residual = fit(dict(zip(parts, shears, strict=True)), z, velocity, reflection)
    weights = copy.deepcopy(model.state_dict())
    scheme = ""
    with suppress(TimeIsUp):
        for name, shares in methods:
            for shear, part, share in zip(shears, parts, shares, strict=True):
                shear.set(share * fields[part])
            trial_error = relative_error_of(model, [pair], scale)
            if trial_error < error:
                error = trial_error
                scheme = name
                weights = copy.deepcopy(model.state_dict())
    model.load_state_dict(weights)
    if not scheme:
        return InitialState()
    model.record = replace(model.record, initial_scheme=scheme)
    begins = "training begins as"
    words = f"its shears are fitted to {residual:.0e} of"
    what = "differences of the states" if differences else "the system's vector field"
    model.choices[:] = [line for line in model.choices if not line.startswith(begins)]
    model.choices.append(f"{begins} {scheme}, an error of {error:.0e}; {words} {what}")
    return InitialState(scheme, residual, error)


def shears_of(model: Model) -> list[LinearShear]:
    """Return the shears of a model in the order of psi; none if it has other couplings."""
    psi = psi_of(model.core)
    if not isinstance(psi, Composition):
        return []
    # unlike couplings, attention moves no state by itself
    mixing = {id(layer) for layer in attention(model)} if model.window > 1 else set[int]()
    stack = [layer for layer in psi if id(layer) not in mixing]
    if not all(map(is_prolongable, stack)):
        return []
    return [shear for layer in stack for shear in layer.shears()]  # type: ignore[operator]


def parts_of(shears: list[LinearShear]) -> list[int]:
    """Return the part of the vector field that each shear follows, as a number.

    Shears of the same block, in the same rotated coordinates, follow the same part.
    """
    bases = [() if each.rotation is None else each.rotation.flatten() for each in shears]
    keys = [(*map(float, basis), shear.block) for basis, shear in zip(bases, shears, strict=True)]
    places = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    return [places[key] for key in keys]


def compositions(parts: list[int], reversible: bool) -> Iterator[tuple[str, list[float]]]:
    """Yield methods that fit into a stack of shears, each with what each shear moves of a step.

    Parameters
    ----------
    parts
        Number of the part of the field of each shear, in the order of application.
    reversible
        Whether the stack is psi in psi R psi^-1 R, and so half of the method: the later half.
    """
    last = max(parts)
    if any(abs(a - b) != 1 for a, b in pairwise(parts)):  # not to and fro
        whole = parts.count(last) * (2 if reversible else 1)
        yield f"{whole} sweeps of the splitting", [1 / whole] * len(parts)
        return
    # shears of the first and last part belong to two sweeps each, but for the very first
    sweep = 0
    sweeps = [range(1)]
    for turns in (part in (0, last) for part in parts[1:]):
        sweeps.append(range(sweep, sweep + 1 + turns))
        sweep += turns
    for steps in range(1, _MOST_STEPS):
        factors = [0.5 / steps] * (steps if reversible else 2 * steps)
        # sweeps without any motion, so that it begins with the last part
        for pause in range(min(2, sweep + 1 - len(factors))):
            moved = [0.0] * pause + factors + [0.0] * (sweep + 1)
            words = f"{steps} steps of strang-splitting" if steps > 1 else "strang-splitting"
            yield words, [sum(moved[n] for n in each) for each in sweeps]


def _velocities(
    model: Model, data: TrainingData, pair: Pair, differences: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return variables of the core, and the vector field there in units of a model's call.

    Without a vector field the differences of states take its place. Parameters do not change.
    """
    inputs, targets, k = pair.to(torch.empty(0, dtype=torch.float64))
    before = inputs[:, -1]
    after = targets[:, -1]
    states = (before + after) / 2
    moved = after - before
    if not differences:
        states = before
        time = model.prediction_window * data.step
        field = data.system.vector_field(data.extended(states.numpy(), k))
        moved = time * torch.from_numpy(field[:, : model.dim])
    if model.explicit_time:  # no shear moves it
        moved[..., -1] = 0.0
    rates = model.coordinates.rates(states, moved)
    return model.variables(states, k), pad(rates, (0, model.parameter_count))


def fit(
    parts: dict[int, LinearShear],
    z: torch.Tensor,
    velocity: torch.Tensor,
    symmetry: torch.Tensor | None,
) -> tuple[dict[int, torch.Tensor], float]:
    """Return the parameters of parts that sum to a vector field, and the relative residual.

    Parameters
    ----------
    parts
        A shear of each part.
    z, velocity
        Variables of the core and what the field is there, (state, dim + m).
    symmetry
        R of psi R psi^-1 R on the variables, by which a shear comes with its image.
    """
    # each component counts by its own size: light particles move as far as heavy ones
    sizes = velocity.norm(dim=0)
    sizes = sizes.clamp_min(_LEAST_SIZE * float(sizes.max())) * math.sqrt(velocity.shape[1])
    rotated = any(shear.rotation is not None for shear in parts.values())
    fields: dict[int, torch.Tensor] = {}
    squares = 0.0
    # shears along coordinates move components of their own, so that each is a problem by itself
    for group in [list(parts)] if rotated else [[part] for part in parts]:
        components = slice(None) if rotated else parts[group[0]].components
        columns = []
        for part in group:
            column = parts[part].columns(z)  # (state, dim, parameter)
            if rotated and symmetry is not None:
                image = parts[part].columns(z @ symmetry.mT)
                column = (column - symmetry @ image) / 2  # (state, dim, parameter)
            columns.append((column[:, components] / sizes[components, None]).flatten(0, 1))
        wanted = (velocity[:, components] / sizes[components]).flatten()
        solution, residual = _least_squares(torch.cat(columns, 1), wanted)
        fields |= zip(group, solution.split([c.shape[1] for c in columns]), strict=True)
        squares += residual**2
    return fields, math.sqrt(squares)


def _least_squares(matrix: torch.Tensor, wanted: torch.Tensor) -> tuple[torch.Tensor, float]:
    """Return the solution of least norm, in columns of length one, and the residual's length."""
    if not matrix.shape[1] or not wanted.norm():
        return wanted.new_zeros(matrix.shape[1]), float(wanted.norm())
    lengths = matrix.norm(dim=0)
    lengths = lengths.masked_fill(lengths < _NEGLIGIBLE, math.inf)
    scaled = matrix / lengths
    solution = torch.linalg.lstsq(
        scaled, wanted[:, None], rcond=_LEAST_SINGULAR_VALUE, driver="gelsd"
    ).solution[:, 0]
    return solution / lengths, float((scaled @ solution - wanted).norm())


def separable_blocks(
    system: System, states: np.ndarray, group: torch.Tensor, moving: int
) -> list[list[int]] | None:
    """Greedily partition the first components into blocks whose diagonal Jacobian block is zero.

    The motion of one block with the other blocks held fixed is a shear, which one step solves
    exactly. The vector field is the sum of these motions.

    Parameters
    ----------
    system
        System; the partition needs its equations as formulas.
    states
        States at which the Jacobian is evaluated, (state, dim).
    group
        Symmetries (element, dim, dim) that must map every block to itself.
    moving
        Number of the components that shears move: not the time, nor parameters.

    Returns
    -------
    list of list of int, or None
        None if a component drives itself or one of its images under the symmetries, or if the
        equations are not known.
    """
    if not system.has_formulas or system.is_discrete:
        return None
    driven = (system.jacobian(states) != 0).reshape(-1, system.dim, system.dim).any(0)
    linked = (group.abs() > TOLERANCE).any(0).numpy()
    linked_components: list[list[int]] = []
    placed: set[int] = set()
    for component in range(moving):
        if component in placed:
            continue
        # components linked by a group are linked by one of its elements: no chains to follow
        alike = np.flatnonzero(linked[:, component] | linked[component]).tolist()
        if driven[np.ix_(alike, alike)].any():
            return None
        placed.update(alike)
        linked_components.append(alike)

    def conflict(first: list[int], second: list[int]) -> bool:
        return bool(driven[np.ix_(first, second)].any() or driven[np.ix_(second, first)].any())

    blocks = partition(linked_components, conflict)
    fewest = 1 if moving < system.dim else 2
    return [sorted(chain(*block)) for block in blocks] if len(blocks) >= fewest else None
