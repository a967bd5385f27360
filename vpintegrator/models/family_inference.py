"""Parameters of a family, inferred from some states of a trajectory."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from vpintegrator.errors import InputError
from vpintegrator.models.family import STEP, FamilyConditions, conditions_of
from vpintegrator.models.inference import Constants, Context, Inference, Motion, Prior, infer
from vpintegrator.models.normalisation import Normalised
from vpintegrator.nn.implicit import tolerance
from vpintegrator.storage.reading import read_json


def infer_conditions(
    model: Normalised,
    states: Any,
    times: Any,
    noise: Any,
    undetermined: bool,
    known: Mapping[str, float],
) -> Inference:
    """Return the parameters of a family inferred from states, see ``Integrator.infer``."""
    conditions = conditions_of(model)
    if conditions is None:
        raise InputError(
            f"the model {model.name} has one step and one set of parameters: there is nothing to "
            "infer; train it on trajectories of many parameters (vp-gen --vary)"
        )
    if model.window != 1:
        raise InputError(f"the family {model.name} reads windows; parameters are inferred by maps")
    n = model.dim - len(conditions.coefficients)
    context = Context.of(states, times, model.scale, n)
    names = [name for name in conditions.ranges if name != STEP and name not in known]
    if not names:
        raise InputError("all parameters of this family are known: there is nothing to infer")
    fixed = known.get(STEP, conditions.step)
    if context.spans is None and fixed is None:
        raise InputError("this family takes any step: give the times of the states, or step=...")
    if context.spans is not None and STEP in conditions.ranges:
        counts, spans = [1] * len(context.spans), context.spans
    else:
        counts = context.steps(fixed)
        spans = torch.full((len(counts),), float(fixed or 0.0), dtype=torch.float64)
    _ = conditions.components(  # a mistake in what is known is told now
        {name: sum(bounds) / 2 for name, bounds in conditions.ranges.items()} | dict(known)
    )
    prior = prior_of(conditions, names)
    constants = _components(conditions, prior, names, spans.to(model.scale), known)
    own = None if noise is None else torch.as_tensor(noise).to(model.scale).expand(n)
    motion = Motion(model, constants, counts)
    found = infer(context, motion, prior, names, _residual(model)[:n], own)
    least = int(found.determined.min())
    if least < len(names) and not undetermined:
        raise InputError(
            f"the context determines {least} of {len(names)} combinations of the parameters "
            f"{', '.join(names)}; give more states, or the values of some (infer(states, "
            f"{names[0]}=...)), or take values near the centre of their range for the rest "
            "(undetermined=True)"
        )
    return found


def prior_of(conditions: FamilyConditions, names: list[str]) -> Prior:
    """Return the normal distribution with mean and variance of the training ranges."""
    bounds = torch.tensor([conditions.ranges[name] for name in names], dtype=torch.float64)
    width = (bounds[:, 1] - bounds[:, 0]).clamp(min=1e-300)
    return Prior(bounds.mean(1), torch.diag(width / math.sqrt(12)))


def _components(
    conditions: FamilyConditions,
    prior: Prior,
    names: list[str],
    spans: torch.Tensor,
    known: Mapping[str, float],
) -> Constants:
    """Return components k of extended states as a function of unknown parameters, span by span."""

    def one(u: torch.Tensor, step: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values: dict[str, Any] = {**known, STEP: step}
        values |= dict(zip(names, prior.mean + prior.factor @ u, strict=True))
        columns = [torch.as_tensor(values[n]) + 0.0 * step for n in conditions.ranges]
        found = conditions.formulas(torch.stack(columns))
        k = torch.stack([torch.as_tensor(x) + 0.0 * step for x in found])
        return k, k

    def constants(u: torch.Tensor, chosen: range) -> tuple[torch.Tensor, torch.Tensor]:
        count = len(chosen)
        rows = u[:, None].expand(-1, count, -1).reshape(-1, u.shape[1])
        steps = spans[list(chosen)].expand(len(u), count).reshape(-1)
        D, k = torch.func.vmap(torch.func.jacfwd(one, has_aux=True))(rows, steps)
        shape = (len(u), count, k.shape[-1])
        return k.reshape(shape), D.reshape(*shape, u.shape[1])

    return constants


def _residual(model: Normalised) -> torch.Tensor:
    """Return the expected error of each component, from the validation error of training."""
    text = model.metadata.get("training")
    training = {} if text is None else read_json(text, "the training of the model")
    error = training.get("best_validation_error", 0.0)
    small = tolerance(model.scale.dtype)
    known = isinstance(error, float) and 0 < error < math.inf
    return (
        max(error, torch.finfo(model.scale.dtype).eps) * model.state_scale
        if known
        else (small * model.state_scale)
    )
