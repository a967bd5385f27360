"""Whether attention is worth its freedom: orbits tell, which leave the windows of the data."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import torch

from vpintegrator.data import Dataset
from vpintegrator.models import Integrator
from vpintegrator.models.growth import unfreeze_attention
from vpintegrator.models.one_step import without_attention

GAIN = 1.5  # by which orbits must be nearer to those of the data
_ORBITS, _STEPS = 50, 100


def with_trained_attention(
    model: Integrator, dataset: Dataset, train: Callable[[Integrator], object]
) -> Integrator | None:
    """Return the model with trained attention, if it brings orbits nearer to the data.

    States that are complete determine the next one, and attention finds nothing that they do not
    say; but where something is hidden, windows know more than their last states.

    Parameters
    ----------
    model
        Model whose attention is frozen at the identity; the model is not changed.
    dataset
        Dataset whose validation group has the orbits.
    train
        Trains a model in place.

    Returns
    -------
    Integrator or None
        Another model, all of whose weights are trained, with the reason among its choices; None if
        it is no better, or the model's attention is not frozen.
    """
    if without_attention(model, fixed=True) is None:
        return None
    trained = copy.deepcopy(model)
    unfreeze_attention(trained)
    train(trained)
    before, after = orbit_error(model, dataset), orbit_error(trained, dataset)
    if not after < before / GAIN:
        return None
    trained.choices.append(
        f"attention is trained, too: orbits of the validation data are {after:.1e} off with it and "
        f"{before:.1e} without, whatever the error one window ahead"
    )
    return trained


@torch.no_grad()
def orbit_error(model: Integrator, dataset: Dataset) -> float:
    """Return the root mean square error of validation orbits, in normalised units.

    Of those that are whole, for as many steps as they have, a hundred at most; the median orbit's.
    """
    length = min(dataset.shapes["validation"][1], model.window + _STEPS)
    with dataset.open_states("validation") as stored:
        states = torch.from_numpy(stored[:_ORBITS, :length]).to(model.scale)
    states = states[states.isfinite().flatten(1).all(1)]
    if not len(states):
        return math.nan
    found = states[:, : model.window]
    while found.shape[1] < length:
        found = torch.cat([found, model.predict(found[:, -model.window :])], 1)
    difference = (found[:, :length] - states)[:, model.window :] / model.state_scale
    errors = difference.square().mean((1, 2)).sqrt()
    return float(errors.nan_to_num(math.inf, math.inf).median())
