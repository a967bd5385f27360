"""Multiple shooting for long steps: segments of a step are learned alone, then all together.

Least squares for polynomials that begin near the identity stall where a step turns states by more
than about a right angle. Where the system is known, so are states on the way: the map from each to
the next is near the identity, and layers of its own learn it within seconds. One after the other
they are the whole map but for small errors, which training it as a whole takes away. It is what
multiple shooting is to boundary value problems (Stoer, Bulirsch, Introduction to Numerical
Analysis, 3rd ed., section 7.3.5).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from vpintegrator.data.pairs import Pairs
from vpintegrator.dynamics.solve import states_between
from vpintegrator.maps import Map
from vpintegrator.models import Model
from vpintegrator.models.growth import attention, layers, with_parts
from vpintegrator.models.stored import Record
from vpintegrator.nn import Composition, Reversible
from vpintegrator.training.training_data import TrainingData

UNITS = 2  # units of layers for each segment

Build = Callable[[int], Model | None]
Learn = Callable[[Model, TrainingData], object]


def shooting_start(build: Build, data: TrainingData, learn: Learn) -> Model | None:
    """Return a model near the map of the data, from segments that were learned alone.

    Parameters
    ----------
    build
        Returns a normalised untrained model of a depth, or of the depth that is given; None if
        there is none.
    data
        Training data of single states, one step ahead.
    learn
        Trains one segment on its data, as far as pays, in its units.

    Returns
    -------
    Model or None
        None where states on the way are not known, or the model would be large.
    """
    dataset = data.dataset
    probe = build(UNITS) if data.knows_flow else None
    if probe is None or probe.prediction_window != 1:
        return None
    # few segments before many: fields may be expensive
    number = next(filter(None, (segments(probe, data, most) for most in (24, 48))), 0)
    model = build(UNITS * number) if number else None
    if model is None:
        return None
    number = max(min(number, model.arguments["depth"] // UNITS), 1)
    reversible = isinstance(model.core, Reversible)
    (start, parameters) = _some_states(model, data, 1_000)
    parts = number * (1 + reversible)
    extended = data.extended(start, parameters)
    states = states_between(data.system, extended, data.step, parts)  # (part, state, dim + m)
    if states is None:
        return None
    states = states[..., : model.dim]
    if reversible:  # psi of psi R psi^-1 R is the later half; so is the first one, turned round
        with torch.no_grad():
            rho = model.reversing_symmetries[0, : model.dim, : model.dim]
            before = states[number::-1].copy()
            turned = model.coordinates.reflected(torch.from_numpy(before), rho).numpy()
        states = np.concatenate([states[number:], turned], axis=1)
        parameters = None if parameters is None else parameters.repeat(2, 1)
    if model.explicit_time:  # all layers of a model read the time in the middle of the step
        states[..., -1] = states[0, :, -1] + (0 if reversible else dataset.step / 2)
    # random order, so that held-out states are like the others
    order = np.random.default_rng(0).permutation(states.shape[1])
    states = states[:, order]
    k = () if parameters is None else (parameters[order],)
    stacked = list(layers(model))
    units = np.arange(len(stacked)).reshape(model.arguments["depth"], -1)
    mixing = {id(layer) for layer in attention(model)}  # attention has no part in segments
    before = states[0]
    last = stacked[:0]
    for places, after in zip(np.array_split(units, number), states[1:], strict=False):
        unit_layers = [
            stacked[place] for place in places.ravel() if id(stacked[place]) not in mixing
        ]
        for new, old in zip(unit_layers, last, strict=False):  # nearly the same
            new.load_state_dict(old.state_dict())
        last = unit_layers
        part = _alone(model, unit_layers)
        learn(part, _SegmentData(data, before, after, *k))
        with torch.no_grad():  # each segment takes away the errors of those before it
            images = part(torch.from_numpy(before)[:, None].to(part.scale), *k)[:, 0]
        images = images.double().numpy(force=True)
        before = np.where(np.isfinite(images), images, before)
    later = "the later half of them learned one by one" if reversible else "learned one by one"
    model.choices.append(f"training begins with the {parts} segments of a step, {later}")
    model.record = replace(model.record, initial_scheme="none")  # the initialisation is done
    return model


def segments(model: Model, data: TrainingData, most: int, near: float = 0.9) -> int:
    """Return the number of segments for each stack of layers; 0 if ``most`` are too few.

    The eigenvalues of the map's derivative decide, since a shear near the identity may be large:
    those of nine tenths of the states must be as near to 1 as a rotation by some 50 degrees is.
    """
    start, parameters = _some_states(model, data, 40)
    moving = [i for i in range(model.dim) if i not in model.constant_components]
    shifted = start + np.zeros((len(moving), 1, 1))
    for k, i in enumerate(moving):
        shifted[k, :, i] += 1e-3 * float(model.coordinates.state_scale[i])
    initial = data.extended(np.concatenate([start[None], shifted]), parameters)
    states = states_between(data.system, initial.reshape(-1, data.system.dim), data.step, most)
    if states is None:
        return 0
    between = torch.from_numpy(states[..., : model.dim]).to(model.scale.device)
    z = model.coordinates(between).numpy(force=True)
    z = z[..., moving].reshape(len(z), -1, len(start), len(moving))
    tangent = (z[:, 1:] - z[:, :1]).transpose(0, 2, 3, 1)  # (part, state, component, vector)
    units = most // 2 if isinstance(model.core, Reversible) else most
    for number in (n for n in range(1, units + 1) if units % n == 0):
        every = units // number
        derivative = tangent[every:] @ np.linalg.pinv(tangent[:-every])
        distance = abs(np.linalg.eigvals(derivative) - 1).max(-1)  # (part, state)
        if np.quantile(distance, 0.9) <= near:
            return number
    return 0


def _some_states(
    model: Model, data: TrainingData, count: int
) -> tuple[np.ndarray, torch.Tensor | None]:
    """Return some training states (state, dim), and their parameters."""
    inputs, _, parameters = data.pairs(model).sample(count, torch.Generator().manual_seed(0))
    return inputs[:, -1].double().numpy(force=True), parameters


def _alone(model: Model, layers: list[torch.nn.Module]) -> Model:
    """Return the map of single states by some layers, which are shared."""
    part = with_parts(model, core=Composition(*layers))
    part.window = 1
    part.reversing_symmetries = part.reversing_symmetries[:0]
    part.record = Record()
    part.choices = []
    if part.explicit_time:
        still = torch.zeros_like(part.get_buffer("time_step"))
        part._buffers = {**part._buffers, "time_step": still}
    return part


class _SegmentData(TrainingData):
    """Pairs of states before and after a segment, a tenth of which is held out."""

    def __init__(
        self, data: TrainingData, before: np.ndarray, after: np.ndarray, *parameters: torch.Tensor
    ) -> None:
        super().__init__(data.dataset, data.equations)
        self._statistics = data._statistics
        both = [torch.from_numpy(np.ascontiguousarray(s))[:, None] for s in (before, after)]
        first = len(before) // 10 or 1
        parts = {"train": slice(first, None), "validation": slice(first)}
        self._own = {
            group: Pairs.of_tensors(*(states[rows] for states in (*both, *parameters)))
            for group, rows in parts.items()
        }

    def pairs(self, model: Map, group: str = "train", horizon: int = 1) -> Pairs:
        return self._own[group]
