"""Multiple shooting for large steps: segments of a step are learned alone, then all together.

Least squares for polynomials that begin near the identity stall where a step turns states by more
than about a right angle. Where the system is known, so are states on the way: the map from each to
the next is near the identity, and layers of its own learn it within seconds. One after the other
they are the whole map but for small errors, which training it as a whole takes away. It is what
multiple shooting is to boundary value problems (Stoer, Bulirsch, Introduction to Numerical
Analysis, 3rd ed., section 7.3.5).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from vpintegrator.data.pairs import Pairs
from vpintegrator.dynamics.solve import states_between
from vpintegrator.errors import InputError
from vpintegrator.models import Integrator
from vpintegrator.models.growth import attention, freeze_attention, layers, prolong
from vpintegrator.models.one_step import one_step, with_parts
from vpintegrator.nn import Composition, Reversible
from vpintegrator.training.history import History
from vpintegrator.training.search.making import Make
from vpintegrator.training.search.sizes import FIRST, MOST, count
from vpintegrator.training.training_data import TrainingData

NEAR = 0.9  # distance of a segment's eigenvalues from 1: a rotation by some 50 degrees
_MOST_OF = 0.9  # fraction of the eigenvalues that must be near
_CLOSE = 1e-3  # distance of two states, in units of their spread
_PROBED = (24, 48)  # segments of the whole way, few before many: fields may be expensive
_UNITS = 2  # units of layers for each segment
_DEGREES = (8, 6, 5, 4, 3)
_STATES, _FEW = 1_000, 40
_HELD_OUT = 0.1
_SEED = 0

TrainOne = Callable[[Integrator, TrainingData], History]


def shooting_start(
    make: Make, sizes: dict[str, Any], data: TrainingData, train: TrainOne
) -> Integrator | None:
    """Return a model near the map of the data, from segments that were learned alone.

    Parameters
    ----------
    make, sizes
        See :func:`vpintegrator.training.find_functions`.
    data
        Training data of single states, one step ahead.
    train
        Trains one segment on its data, as far as pays.

    Returns
    -------
    Integrator or None
        Normalised; None where states on the way are not known, or the model would be large.
    """
    dataset = data.dataset
    if dataset.is_observed or not dataset.is_complete:
        return None
    probe = _made(make, sizes, 1)
    if probe is None:
        return None
    data.normalise(probe)
    number = next(filter(None, (_segments_of(probe, data, most) for most in _PROBED)), 0)
    number = min(number, max(sizes.get("depth", number * _UNITS) // _UNITS, 1))
    model = _made(make, sizes, number) if number else None
    if model is None:
        return None
    data.normalise(model)
    reversible = isinstance(model.core, Reversible)
    start, parts = _some_states(model, data, _STATES), number * (1 + reversible)
    states = states_between(dataset.system, start, dataset.step, parts)
    if states is None:
        return None
    if reversible:  # psi of psi R psi^-1 R is the later half; so is the first one, turned round
        with torch.no_grad():
            turned = model.reflected(torch.from_numpy(states[number::-1].copy())).numpy()
        states = np.concatenate([states[number:], turned], axis=1)
    if model.explicit_time:  # all layers of a model read the time in the middle of the step
        states[..., -1] = states[0, :, -1] + (0 if reversible else dataset.step / 2)
    order = np.random.default_rng(_SEED).permutation(states.shape[1])
    states = states[:, order]  # random order, so that held-out states are like the others
    stacked = list(layers(model))
    unit = len(stacked) // model.arguments["depth"]
    before, last = states[0], stacked[:0]
    for k, units in enumerate(np.array_split(np.arange(len(stacked) // unit), number)):
        own = stacked[units[0] * unit : (units[-1] + 1) * unit]
        for new, old in zip(own, last, strict=False):  # nearly the same
            new.load_state_dict(old.state_dict())
        last = own
        part, pairs = _alone(model, own), _SegmentData(data, before, states[k + 1])
        train(part, pairs)
        # each takes away the errors of those before it
        before = _images(part, before)
    model.choices.append(
        f"training begins with the {number * (1 + reversible)} segments of a step, "
        + ("the later half of them learned one by one" if reversible else "learned one by one")
    )
    model.metadata["initial_scheme"] = "none"  # the initialisation is done
    if sizes.get("degree", 0) > model.arguments["degree"]:
        return prolong(model, degree=sizes["degree"])
    return model


def _made(make: Make, sizes: dict[str, Any], segments: int) -> Integrator | None:
    """Return the untrained model, of as high a degree as is small."""
    depth = {"depth": sizes.get("depth", _UNITS * segments)}
    highest = sizes.get("degree", _DEGREES[0])
    for degree in sorted({min(degree, highest) for degree in _DEGREES}, reverse=True):
        try:
            model = make({"functions": "polynomial", "degree": degree} | depth)
        except InputError:  # too many terms, or none that the symmetries allow
            continue
        freeze_attention(model)
        alone = one_step(model, fixed=True) or model
        least = "degree" in sizes or degree == _DEGREES[-1]
        if alone.window == 1 and count(model) <= (MOST if least else FIRST):
            return model
    return None


def _segments_of(model: Integrator, data: TrainingData, most: int) -> int:
    """Return the number of segments for each stack of layers; 0 if ``most`` are too few.

    The eigenvalues of the map's derivative decide, since a shear near the identity may be large.
    """
    start = _some_states(model, data, _FEW)
    still = model.conserved_components | ({model.dim - 1} if model.explicit_time else set())
    moving = [i for i in range(model.dim) if i not in still]
    beside = start + np.zeros((len(moving), 1, 1))
    for k, i in enumerate(moving):
        beside[k, :, i] += _CLOSE * float(model.state_scale[i])
    several = np.concatenate([start[None], beside]).reshape(-1, model.dim)
    states = states_between(data.dataset.system, several, data.dataset.step, most)
    if states is None:
        return 0
    given = torch.from_numpy(states).to(model.scale.device)
    z = model.normalised(given).numpy(force=True)[..., moving]
    z = z.reshape(len(z), -1, len(start), len(moving))
    tangent = (z[:, 1:] - z[:, :1]).transpose(0, 2, 3, 1)  # (part, state, component, vector)
    own = most // 2 if isinstance(model.core, Reversible) else most
    for number in (n for n in range(1, own + 1) if own % n == 0):
        every = own // number
        of_segment = tangent[every:] @ np.linalg.pinv(tangent[:-every])
        moved = abs(np.linalg.eigvals(of_segment) - 1).max(-1)
        if np.quantile(moved, _MOST_OF) <= NEAR:
            return number
    return 0


def _some_states(model: Integrator, data: TrainingData, count: int) -> np.ndarray:
    """Return some training states (state, dim)."""
    generator = torch.Generator().manual_seed(_SEED)
    alone = one_step(model, fixed=True) or model
    inputs, _ = data.pairs(alone).sample(count, generator)
    return inputs[:, -1].double().numpy(force=True)


def _alone(model: Integrator, own: list[torch.nn.Module]) -> Integrator:
    """Return the map of states of some layers without attention; layers are shared."""
    frozen = {id(layer) for layer in attention(model)}
    core = Composition(*(layer for layer in own if id(layer) not in frozen))
    part = with_parts(one_step(model, fixed=True) or model, core=core)
    part.reversing_symmetries = part.reversing_symmetries[:0]
    part.metadata, part.choices = {}, []
    if part.explicit_time:
        part._buffers = {**part._buffers, "advance": torch.zeros_like(part.get_buffer("advance"))}
    return part


@torch.no_grad()
def _images(model: Integrator, states: np.ndarray) -> np.ndarray:
    """Return the images of states (state, dim); states whose image is not finite are unchanged."""
    found = model(torch.from_numpy(states)[:, None].to(model.scale))[:, 0].double()
    images = found.numpy(force=True)
    return np.where(np.isfinite(images), images, states)


class _SegmentData(TrainingData):
    """Pairs of states before and after a segment."""

    def __init__(self, data: TrainingData, before: np.ndarray, after: np.ndarray) -> None:
        super().__init__(data.dataset, tested=False)
        self._statistics = data._statistics
        both = [torch.from_numpy(np.ascontiguousarray(s))[:, None] for s in (before, after)]
        held_out = int(_HELD_OUT * len(before)) or 1
        self._own: dict[str, Pairs] = {
            "train": Pairs.of_tensors(*(states[held_out:] for states in both)),
            "validation": Pairs.of_tensors(*(states[:held_out] for states in both)),
        }

    def normalise(self, model: Integrator) -> None:
        """Leave it as it is: all segments are in the same units."""

    def _pairs(self, group: str, model: Integrator, horizon: int = 1) -> Pairs:
        return self._own[group]
