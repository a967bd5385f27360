"""Errors of models that infer constants from contexts, on trajectories of a test group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from vpintegrator.data import Dataset
from vpintegrator.data.extended import ExtendedDataset
from vpintegrator.errors import InputError
from vpintegrator.models import Integrator
from vpintegrator.models.family import conditions_of
from vpintegrator.models.in_context_integrator import InContextIntegrator
from vpintegrator.models.inference import Inference
from vpintegrator.training.training_data import TrainingData


@dataclass(frozen=True)
class ContextError:
    """Errors of constants inferred from contexts of one length, and of predictions.

    Attributes
    ----------
    length
        Number of states of each context.
    error
        Root mean square error of the state after the context, relative to the spread of the states.
    parameters
        Median error of each parameter of a family, if contexts determine all parameters.
    unknown
        Reason in a sentence if contexts do not determine the parameters.
    """

    length: int
    error: float
    parameters: dict[str, float] = field(default_factory=dict)
    unknown: str = ""


def context_errors(
    model: Integrator, dataset: Dataset, lengths: Sequence[int], trajectories: int = 200
) -> list[ContextError]:
    """Return errors of the state after contexts, all of which end at the same states.

    Parameters
    ----------
    model
        A family, or a model that learns in context.
    dataset
        Trajectories of many parameters.
    lengths
        Lengths of the contexts, increasing; lengths beyond the test trajectories are left out.
    trajectories
        Largest number of trajectories.

    Returns
    -------
    list of ContextError
        Errors for each length; empty if the model infers nothing, or no test trajectory is long
        enough.
    """
    plain = dataset.plain if isinstance(dataset, ExtendedDataset) else dataset
    in_context = isinstance(model, InContextIntegrator)
    if not (in_context or (conditions_of(model) and model.window == 1)):
        return []
    if model.scale.device.type != "cpu" or 0 in plain.shapes.get("test", (0,)):
        return []
    if "step" in plain.varied:  # each trajectory has its own times
        return []
    states = plain.states("test", slice(trajectories))
    states = states[np.isfinite(states).all((1, 2))]
    lengths = [length for length in lengths if length < states.shape[1]]
    if not lengths or not len(states):
        return []
    given = plain.conditions("test")[:trajectories] if plain.is_family else None
    if given is not None and given.ndim > 2:  # inputs that change from step to step
        return []
    last, scale = max(lengths), TrainingData(dataset).error_scale
    true, found = torch.from_numpy(states[:, last]), []
    for length in lengths:
        context = states[:, last - length : last]
        inferred = _inferred(model, context)
        x = _next(model, inferred)
        difference = (x - true)[:, [c for c in scale.components if c < true.shape[1]]]
        error = float(difference.square().sum(-1).mean().sqrt()) / (scale.spread or 1.0)
        parameters, unknown = {}, ""
        if not in_context and given is not None:
            rank = int(inferred.determined.median())
            if rank == len(inferred.names):
                places = [list(plain.varied).index(name) for name in inferred.names]
                off = (inferred.values - torch.from_numpy(given[:, places])).abs().median(0).values
                parameters = dict(zip(inferred.names, off.tolist(), strict=True))
            else:
                unknown = (
                    f"{length} states determine {rank} of {len(inferred.names)} combinations of "
                    f"{', '.join(inferred.names)}"
                )
        found.append(ContextError(length, error, parameters, unknown))
    return found


def _inferred(model: Integrator, context: np.ndarray) -> Inference:
    if isinstance(model, InContextIntegrator):
        return model.infer(context)
    return model.infer(context, undetermined=True)


@torch.no_grad()
def _next(model: Integrator, inferred: Inference) -> torch.Tensor:
    """Return the states after contexts."""
    z = inferred.state
    if isinstance(model, InContextIntegrator):
        x = torch.cat([z, inferred.values], -1)
        return model.stepper(x[:, None])[:, 0, : z.shape[-1]]
    conditions = conditions_of(model)
    if conditions is None:
        raise InputError(f"{model.name} infers nothing")
    values = inferred.values.unbind(-1)
    k = torch.stack(conditions.formulas(torch.stack(values, -1)), -1)
    return model(torch.cat([z, k], -1)[:, None])[:, 0, : z.shape[-1]]
