"""Initialisation of polynomial couplings by a classical splitting method of the system.

A vector field that is a sum of shears f_1 + ... + f_m is solved by the shears one after the other,
and back again, with the factors of a composition (``compositions``). A model whose
couplings are these shears equals that method, its initial splitting scheme. Such a model is near
the flow, and least squares find the rest; from the identity they may stall at errors of order one.
The shears are fitted to the vector field at the training states, or to differences of the states if
the equations are not known.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

import torch

from vpintegrator.dynamics.compositions import FACTORS
from vpintegrator.errors import InputError
from vpintegrator.models import Integrator
from vpintegrator.models.one_step import simplified
from vpintegrator.nn.reversible import Reversible
from vpintegrator.training.deadline import TimeIsUp
from vpintegrator.training.residuals import relative, relative_error_of
from vpintegrator.training.splitting_parts import fit, shears_of
from vpintegrator.training.training_data import TrainingData

KERNELS = ("auto", "none", *FACTORS)
_NUMBERS, _STATES = 16_000, 200  # numbers of all components together, and states at least
_MOST_STEPS = 64  # steps of a method within a step of the data


def check_kernel(kernel: str) -> str:
    """Return the name of a method to begin as, "auto" or "none", or InputError."""
    if kernel not in KERNELS:
        raise InputError(f"kernel must be one of {', '.join(KERNELS)}, not {kernel!r}")
    return kernel


@dataclass(frozen=True)
class Beginning:
    """Initialisation of a model, and the errors of its fit.

    Attributes
    ----------
    method
        Splitting method that initialises the model, in words. Empty if the model is unchanged: its
        error is smaller already, or it is no stack of couplings by polynomials.
    misfit
        Relative residual of the fit of the shears to the vector field of the data.
    error
        Relative error of the model, one window ahead.
    """

    method: str = ""
    misfit: float = math.inf
    error: float = math.inf


def begin_as_splitting(model: Integrator, data: TrainingData, kernel: str = "auto") -> Beginning:
    """Give a model the weights of a splitting method, if it has no better ones.

    Parameters
    ----------
    model
        Normalised. Attention is at rest where there is any.
    data
        Training data of the model.
    kernel
        The method, one of ``compositions.FACTORS``, in the number of steps of least
        error that fits into the stack; "auto" is Strang splitting, from whose short and equal steps
        training gets furthest; "none" leaves the model as it is.

    Raises
    ------
    InputError
        If there is no such method, or a named one needs more layers.
    """
    check_kernel(kernel)
    if kernel == "auto" and "kernel" in model.metadata:
        return Beginning()  # the model is initialised already
    model = simplified(model, fixed=True)
    shears = [] if kernel == "none" else shears_of(model)
    if not shears:
        if kernel not in ("auto", "none"):
            raise InputError(f"kernel = {kernel} is for polynomials; {model.name} has none here")
        return Beginning()
    generator = torch.Generator().manual_seed(0)
    count = max(_STATES, _NUMBERS // model.dim)
    inputs, targets = data.pairs(model).sample(count, generator)
    if not bool(torch.isfinite(inputs).all() and torch.isfinite(targets).all()):
        return Beginning()
    reversible = isinstance(model.core, Reversible)
    methods = list(compositions([shear.part for shear in shears], reversible, kernel))
    if not methods:
        if kernel != "auto" and reversible and len(FACTORS[kernel]) % 2:
            raise InputError(f"kernel = {kernel} is not symmetric, as a reversible model is")
        if kernel != "auto":
            raise InputError(
                f"kernel = {kernel} needs more layers than depth = {_depth(model)}; give more"
            )
        return Beginning()
    # a method that errs more than standing still is none
    scale = data.error_scale
    moved = (targets - inputs[:, -1:])[..., list(scale.components)].square().sum().item()
    still = relative(moved, targets[..., 0].numel(), scale.spread)
    own = relative_error_of(model, [(inputs, targets)], scale)
    best = min(own if math.isfinite(own) else math.inf, still)
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    z, velocity = _velocities(model, data, inputs[:, -1], targets[:, -1])
    reflection = model.core.reflection if isinstance(model.core, Reversible) else None
    fields, misfit = fit(shears, z, velocity, reflection)
    chosen = ""
    with suppress(TimeIsUp):
        for name, shares in methods:
            for shear, share in zip(shears, shares, strict=True):
                shear.set(share * fields[shear.part])
            error = relative_error_of(model, [(inputs, targets)], scale)
            if error < best:
                best, chosen = error, name
                weights = {name: value.clone() for name, value in model.state_dict().items()}
    model.load_state_dict(weights)
    if not chosen:
        return Beginning()
    model.metadata["kernel"] = chosen
    model.choices[:] = [line for line in model.choices if not line.startswith(_BEGINS)]
    what = "differences of the states" if _by_differences(data) else "the system's vector field"
    model.choices.append(
        f"{_BEGINS} {chosen}, an error of {best:.0e}; "
        f"its shears are fitted to {misfit:.0e} of {what}"
    )
    return Beginning(chosen, misfit, best)


_BEGINS = "training begins as"


def compositions(
    parts: list[int], reversible: bool, kernel: str = "auto"
) -> Iterator[tuple[str, list[float]]]:
    """Yield methods that fit into a stack of shears, each with what each shear moves of a step.

    Parameters
    ----------
    parts
        Number of the part of the field of each shear, in the order of application.
    reversible
        Whether the stack is psi in psi R psi^-1 R, and so half of the method: the later half.
    kernel
        The name of the method that is wanted, or "auto".
    """
    last = max(parts)
    turning = [n == 0 or part in (0, last) for n, part in enumerate(parts)]
    if any(abs(a - b) != 1 for a, b in pairwise(parts)):  # not to and fro
        if kernel in ("auto", "coordinate-splitting"):
            whole = parts.count(last) * (2 if reversible else 1)
            yield f"{whole} sweeps of the splitting", [1 / whole] * len(parts)
        return
    # shears of the first and last part belong to two sweeps each, but for the very first
    sweep = 0
    sweeps: list[tuple[int, ...]] = [(0,)]
    for turns in turning[1:]:
        sweeps.append((sweep, sweep + 1) if turns else (sweep,))
        sweep += turns
    name = "strang-splitting" if kernel == "auto" else kernel
    method = FACTORS[name]
    if reversible and len(method) % 2:
        return
    for steps in range(1, _MOST_STEPS):
        factors = [factor / steps for factor in method] * steps
        if reversible:
            factors = factors[len(factors) // 2 :]
        for pause in (0, 1):  # sweeps without any motion, so that it begins with the last part
            if len(factors) + pause > sweep:
                continue
            moved = [0.0] * pause + factors + [0.0] * (sweep + 1)
            words = f"{steps} steps of {name}" if steps > 1 else name
            yield words, [sum(moved[n] for n in each) for each in sweeps]


def _depth(model: Integrator) -> int:
    return int(model.arguments["depth"])


def _by_differences(data: TrainingData) -> bool:
    """Whether no vector field is known."""
    system = data.dataset.system
    return system.is_measured or system.is_discrete


def _velocities(
    model: Integrator, data: TrainingData, before: torch.Tensor, after: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return normalised states, and the vector field there in units of a model's call."""
    system = data.dataset.system
    before, after = before.cpu().double(), after.cpu().double()
    if _by_differences(data):
        states, moved = (before + after) / 2, after - before
    else:
        states = before
        time = model.prediction_window * data.dataset.step
        moved = time * torch.from_numpy(system.vector_field(states.numpy()))
    if model.clock:  # no shear moves it
        moved[..., -1] = 0.0
    return model.normalised(states), model.normalised_rates(states, moved)
