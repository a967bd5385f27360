"""Additional training states at large errors: chaotic layers, edges of islands and the domain.

How much it errs at a state is not known before that state's image is, which may be expensive; but
errors of states nearby are. Among many candidates those are drawn, with a probability that is the
mean square of the errors of their nearest neighbours, whose images are then solved for.
"""

from __future__ import annotations

import numpy as np
import scipy  # loads scipy.spatial when it is used
import torch

from vpintegrator.arguments import whole_number
from vpintegrator.data import Dataset
from vpintegrator.data.pairs import HeldPairs, Pairs
from vpintegrator.dynamics import System, solve
from vpintegrator.errors import InputError
from vpintegrator.models import Integrator
from vpintegrator.training.history import Budget, History
from vpintegrator.training.progress import Show
from vpintegrator.training.train import train
from vpintegrator.training.training_data import TrainingData

_CANDIDATES = 20  # for each state that is taken
_NEIGHBOURS = 4
_BEYOND = 0.5  # allowed distance of a candidate outside, relative to that of neighbours
_TOLERANCE = 1e-13
_MOST = 200_000  # pairs of the dataset that are looked at


class AdaptiveData(TrainingData):
    """A dataset to which states are added where a model errs.

    Parameters
    ----------
    data
        Training data of one-step models of a known system, without noise.

    Attributes
    ----------
    inputs, targets
        States that were added and their images, (state, dim).

    Raises
    ------
    InputError
        If the states are noisy, or those of no known system.

    Examples
    --------
    >>> dataset = vp.generate("pendulum", "little.h5", count=20, steps=1, overwrite=True)
    >>> model = vp.models.VolumePreservingFeedForward(dim=2, functions="polynomial", degree=3)
    >>> data = vp.training.AdaptiveData(dataset)
    >>> largest = data.add_where_wrong(model, 5, np.random.default_rng(0))
    >>> data.inputs.shape, data.targets.shape
    ((5, 2), (5, 2))
    """

    def __init__(self, data: TrainingData | Dataset) -> None:
        data = TrainingData.of(data)
        dataset = data.dataset
        if dataset.is_observed:
            raise InputError(
                f"{dataset.path}: images of further states follow from equations; for noisy and "
                "measured data leave adaptive sampling out"
            )
        super().__init__(dataset, data.tested)
        self._made = data._made  # values read before are shared
        self.inputs = self.targets = np.empty((0, dataset.dim))

    def add_where_wrong(
        self, model: Integrator, count: int, generator: np.random.Generator
    ) -> float:
        """Add ``count`` states, fewer if some have no image; gives the largest error seen.

        Errors are distances in units of each component's spread.
        """
        known, images = self._known(model)
        scale = model.state_scale.double().numpy(force=True)
        errors = _errors(model, known, images)
        tree = scipy.spatial.cKDTree(known / scale)
        candidates = _between(known, tree, scale, _CANDIDATES * count, generator)
        _, near = tree.query(candidates / scale, k=_NEIGHBOURS)
        weights = (errors[near] ** 2).mean(axis=1)
        if not weights.sum() > 0:
            return 0.0
        chosen = generator.choice(
            len(candidates),
            min(count, (weights > 0).sum()),
            replace=False,
            p=weights / weights.sum(),
        )
        new = candidates[chosen]
        found = _images(self.dataset.system, new, self.dataset.step)
        there = np.isfinite(found).all(axis=1)
        self.inputs = np.concatenate([self.inputs, new[there]])
        self.targets = np.concatenate([self.targets, found[there]])
        return float(errors.max())

    def _known(self, model: Integrator) -> tuple[np.ndarray, np.ndarray]:
        """Return states (state, dim) and images: training, validation and added states."""
        found = [(self.inputs, self.targets)]
        for group in ("train", "validation"):
            pairs = super()._pairs(group, model)
            x, y = pairs.evenly(_MOST)
            found.append((x[:, -1].double().numpy(force=True), y[:, -1].double().numpy(force=True)))
        inputs, targets = zip(*found, strict=True)
        return np.concatenate(inputs), np.concatenate(targets)

    def _pairs(self, group: str, model: Integrator, horizon: int = 1) -> Pairs:
        pairs = super()._pairs(group, model, horizon)
        if group != "train" or not len(self.inputs):
            return pairs
        more = (torch.from_numpy(s)[:, None].to(model.scale) for s in (self.inputs, self.targets))
        both = zip(pairs.evenly(_MOST), more, strict=True)
        return HeldPairs.of_tensors(*(torch.cat(states) for states in both))


def train_where_wrong(
    model: Integrator,
    dataset: TrainingData | Dataset,
    count: int,
    *,
    rounds: int = 3,
    seconds: float | None = None,
    epochs: int | None = None,
    seed: int = 0,
    progress: Show | bool | None = None,
) -> History:
    """Train a trained one-step model on, in place, with further states where it errs most.

    Parameters
    ----------
    model
        Trained on the dataset.
    dataset
        Dataset of a known system, without noise; its validation group judges as before.
    count
        States whose images are solved for, in all rounds together.
    rounds
        Number of times that states are added before training continues.
    seconds, epochs
        The budget of all rounds.
    seed
        Seed of the choice of states.
    progress
        Argument of :func:`vpintegrator.train`.

    Returns
    -------
    History
        History of the last round.

    Raises
    ------
    InputError
        If the model reads several states, or the dataset's states are noisy or measured.

    Examples
    --------
    >>> dataset = vp.generate("pendulum", "few.h5", count=20, steps=1, overwrite=True)
    >>> model = vp.models.VolumePreservingFeedForward(dim=2, functions="polynomial", degree=5)
    >>> history = vp.train(model, dataset, epochs=20)
    >>> history = vp.training.train_where_wrong(model, dataset, 30, epochs=30)
    >>> history.best_validation_error < 1e-2
    True
    """
    count, rounds = whole_number("count", count, 1), whole_number("rounds", rounds, 1)
    if model.window != 1:
        raise InputError(
            f"adaptive sampling is for one-step models, and {model.name} reads several states"
        )
    data, generator = AdaptiveData(dataset), np.random.default_rng(seed)
    budget = Budget(seconds, epochs).or_default().part(1 / rounds)
    history = None
    for left in range(rounds, 0, -1):
        data.add_where_wrong(model, -(-(count - len(data.inputs)) // left), generator)
        history = train(
            model,
            data,
            seconds=budget.seconds,
            epochs=budget.epochs,
            normalise=False,
            initial_scheme="none",
            seed=seed,
            progress=progress,
        )
        if history.stopped_by == "interrupt":
            break
    assert history is not None
    return history


@torch.no_grad()
def _errors(model: Integrator, states: np.ndarray, images: np.ndarray) -> np.ndarray:
    found = model(torch.from_numpy(states)[:, None].to(model.scale))[:, 0].double()
    scale = model.state_scale.double().numpy(force=True)
    errors = np.linalg.norm((found.numpy(force=True) - images) / scale, axis=1)
    return np.where(np.isfinite(errors), errors, errors[np.isfinite(errors)].max(initial=1.0))


def _between(
    states: np.ndarray,
    tree: scipy.spatial.cKDTree,
    scale: np.ndarray,
    count: int,
    generator: np.random.Generator,
) -> np.ndarray:
    """Return candidates on lines through states and their neighbours, and a little beyond them."""
    first = generator.integers(len(states), size=count)
    _, near = tree.query(states[first] / scale, k=_NEIGHBOURS + 1)
    second = near[np.arange(count), generator.integers(1, _NEIGHBOURS + 1, size=count)]
    part = generator.uniform(-_BEYOND, 1.0, size=(count, 1))
    return states[first] + part * (states[second] - states[first])


def _images(system: System, states: np.ndarray, step: float) -> np.ndarray:
    """Return the states after a step, (state, dim); NaN if the solution fails."""
    if system.is_discrete:
        return system.iteration(_TOLERANCE, _TOLERANCE)(states)
    times = np.array([0.0, step])
    return solve(system, states, times, rtol=_TOLERANCE, atol=_TOLERANCE)[:, -1]
