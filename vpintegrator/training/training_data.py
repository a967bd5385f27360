"""Training data of a dataset; values read or computed once serve every training on it."""

from __future__ import annotations

import copy
import json
import math
import os
import time
import warnings
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch

from vpintegrator.data import Dataset, open_dataset
from vpintegrator.data.chains import chains
from vpintegrator.data.extended import ExtendedDataset
from vpintegrator.data.pairs import Pair, Pairs
from vpintegrator.dynamics.sizes import spread_of
from vpintegrator.dynamics.training_domain import Domain
from vpintegrator.errors import InputError
from vpintegrator.models import Model
from vpintegrator.models.family import KEY, MEMBER, FamilyConditions
from vpintegrator.nn.attention_weights import attention_change
from vpintegrator.nn.chart_map import ChartMap
from vpintegrator.runtime.deadline import time_left, unhurried
from vpintegrator.training.least_squares import trimmed
from vpintegrator.training.residuals import (
    ErrorScale,
    estimated_error,
    reciprocal_spread,
    relative_error_of,
)

IN_MEMORY = 1 << 26  # bytes of states; of larger groups a part is read
_RANGE_STATES = 20_000  # by which layers see the range of their variables
FOLDS = 5  # trajectories from which on some of them are left out, and not the end of each
FEW = 1_000  # pairs of the training and validation groups, up to which none are held out
_VALIDATION_WINDOWS = 1000  # judged every epoch, which must stay cheap beside the epoch itself
_AT_ONCE = 1_000  # windows of the test group between two looks at the time
_TEST_WINDOWS = 10_000  # by which the root mean square is known to a percent


class KnownPairs(NamedTuple):
    """Pairs of states that are not of the test group.

    Attributes
    ----------
    before, after : (pair, dim)
        States before and after a step.
    folds : (pair,)
        Number of the fold of each pair; the pairs of a fold are left out together: those that
        follow one another. Of few trajectories the last fifth of the time is the fold 0, and the
        others are never left out, -1: an error within an orbit says little on where it goes.
    """

    before: torch.Tensor
    after: torch.Tensor
    folds: np.ndarray

    @property
    def are_single(self) -> bool:
        """Whether each pair is a trajectory of its own."""
        return len(set(self.folds)) == len(self.folds)


class TrainingData:
    """Windows of a dataset, what they are judged by, and what its training states are like.

    Parameters
    ----------
    dataset
        The dataset.
    tested
        Whether models are judged by the test group, too.
    """

    def __init__(self, dataset: Dataset, tested: bool = True) -> None:
        self.dataset = dataset
        self.tested = tested and self.has("test")
        self._made: dict[tuple[Any, ...], Any] = {}

    @classmethod
    def of(cls, dataset: TrainingData | Dataset | str | os.PathLike[str]) -> TrainingData:
        """Return the training data of a dataset, or of the path of one."""
        if isinstance(dataset, TrainingData):
            return dataset
        found = dataset if isinstance(dataset, Dataset) else open_dataset(dataset)
        if found.is_family and not isinstance(found, ExtendedDataset):
            found = ExtendedDataset(found)
        return cls(found)

    def without_test(self) -> TrainingData:
        """Return training data without a test group, for trainings that are judged later."""
        found = copy.copy(self)
        found.tested = False
        return found

    def has(self, group: str) -> bool:
        """Whether a group has trajectories with steps."""
        count, times, _ = self.dataset.shapes.get(group, (0, 0, 0))
        return count > 0 and times > 1

    @property
    def is_few(self) -> bool:
        """Whether data are measured, without gaps, and so few that no pairs are held out."""
        if not (self.dataset.is_observed and self.dataset.is_complete):
            return False
        shapes = [self.dataset.shapes.get(group, (0, 1, 0)) for group in ("train", "validation")]
        return sum(count * max(times - 1, 0) for count, times, _ in shapes) <= FEW

    @cached_property
    def known_pairs(self) -> KnownPairs:
        """The pairs of the training and validation groups.

        Examples
        --------
        >>> from vpintegrator.training.training_data import TrainingData
        >>> states = np.random.default_rng(0).normal(size=(20, 2, 3))
        >>> dataset = vp.import_dataset(states, "few.h5", step=1.0, overwrite=True)
        >>> before, after, folds = TrainingData(dataset).known_pairs
        >>> before.shape, len(set(folds.tolist()))  # three trajectories are the test group
        (torch.Size([17, 3]), 17)
        """
        dim = self.dataset.dim
        groups = [self.held(name) for name in ("train", "validation") if self.has(name)]
        before = np.concatenate([states[:, :-1].reshape(-1, dim) for states in groups])
        after = np.concatenate([states[:, 1:].reshape(-1, dim) for states in groups])
        orbits = chains(before, after)
        order = np.concatenate(orbits)
        folds = np.repeat(np.arange(len(orbits)), [len(orbit) for orbit in orbits])
        if min(len(orbits), self.dataset.shapes["train"][0]) < FOLDS:
            folds = np.where(np.arange(len(order)) * FOLDS // len(order) < FOLDS - 1, -1, 0)
        before, after = before[order], after[order]
        return KnownPairs(torch.from_numpy(before), torch.from_numpy(after), folds)

    @cached_property
    def chart(self) -> bool | None:
        """False if some training states have no place in the system's chart; else None."""
        system = self.dataset.system
        if system.chart is None:
            return None
        states = self.held("train").reshape(-1, self.dataset.dim)
        with np.errstate(all="ignore"):
            images = system.chart(states[np.isfinite(states).all(1)])
        return None if np.isfinite(images).all() else False

    @torch.no_grad()
    def known_error(self, model: Model) -> float:
        """Return the error of a map of single states at the known pairs.

        A root mean square in units of the spread of each component, as leave-one-out errors are,
        without the largest twentieth where each pair is a trajectory. Infinite where the equations
        of an implicit map have no solution, or another than that of the fit.
        """
        before, after, _ = self.known_pairs
        difference = model(before[:, None].to(model.scale))[:, 0] - after
        squares = (difference * reciprocal_spread(after)).square().mean(1).numpy()
        if not np.isfinite(squares).all():
            return math.inf
        return math.sqrt(trimmed(squares)[0] if self.known_pairs.are_single else squares.mean())

    def check(self, model: Model) -> None:
        """Refuse a model for other states; warn of one that does not fit the flow."""
        dataset, system = self.dataset, self.dataset.system
        if dataset.dim != model.dim:
            raise InputError(
                f"the model is for states of {model.dim} components, but {dataset.path} holds "
                f"states of {dataset.dim}; make the model with dim={dataset.dim}"
            )
        is_symplectic = model.structure.is_symplectic
        if is_symplectic and system.canonical_order and model.coordinates.order is None:
            raise InputError(
                f"the model takes all positions first, but states of {system.name} are "
                f"({', '.join(system.components)}); call its set_coordinates(order="
                f"{[*system.canonical_order]}), or make it by vpintegrator.models.build"
            )
        if model.structure.keeps_volume and not system.may_preserve_volume:
            why = "div f is not zero" if not system.is_measured else "its file claims no structure"
            warnings.warn(
                f"the flow of {system.name} changes volumes ({why}), which "
                f"{model.name} never does; a model without structure fits better: resnet, or "
                "transformer",
                stacklevel=4,
            )

    def pairs(self, model: Model, horizon: int = 1) -> Pairs:
        """Return training windows, on the model's device; some of large groups."""
        return self._pairs("train", model, horizon)

    def held_out(self, model: Model) -> Pair:
        """Return pairs of windows by which the best weights are chosen: some, evenly from all.

        Few data without a validation group are judged by the training pairs; their models are
        chosen by cross-validation.

        Raises
        ------
        InputError
            If there are none.
        """
        if not self.has("validation"):
            if self.is_few:
                inputs, targets = self.pairs(model).evenly(_VALIDATION_WINDOWS)
                return inputs.to(model.scale), targets.to(model.scale)
            raise InputError(
                f"{self.dataset.path} has no validation trajectories, by which the best weights "
                "are chosen; generate it with some in [trajectories]"
            )
        inputs, targets = self._pairs("validation", model).evenly(_VALIDATION_WINDOWS)
        return inputs.to(model.scale), targets.to(model.scale)

    def held_out_error(self, model: Model) -> tuple[float, float]:
        """Return the relative error on the windows that are held out, and its standard error."""
        inputs, targets = self.held_out(model)
        with unhurried():
            return estimated_error(model, inputs, targets, self.error_scale)

    def check_test(self, model: Model) -> None:
        """Refuse a test group too short for the model; groups that are cut in time differ."""
        if self.tested:
            self._pairs("test", model)

    def describe(self, model: Model) -> None:
        """Let a model say what it was trained on."""
        dataset = self.dataset
        model.metadata.pop(MEMBER, None)  # trained further, it is no longer a family's
        model.metadata |= {
            "system": dataset.system.text,
            "system_name": dataset.system.name,
            "parameters": json.dumps(dataset.parameters),
            **self._varied(),
            "dataset": os.fspath(dataset.path),
            "dataset_fingerprint": dataset.fingerprint,
            "region": self._statistics[1].text,
        }
        model.metadata.pop("attention", None)
        windows, _ = self.held_out(model)
        change = attention_change(model, windows[:: len(windows) // 100 or 1])
        if change is not None:
            model.metadata["attention"] = change.words

    def _varied(self) -> dict[str, str]:
        """Return the metadata of the step, or of all conditions of a family."""
        dataset, family = self.dataset, self.dataset.system.family
        if family is None:
            return {"step": repr(dataset.step)}
        values = family.system.parameters
        nominal = {n: float(values[n]) for n in family.conditions if n in values}
        conditions = FamilyConditions(dataset.varied, family.coefficients, nominal, family.step)
        return {KEY: conditions.text}

    def test_error(self, model: Model) -> float:
        """Return the relative error on test windows; nan without a test group.

        It is infinite where the model overflows. If the time is up, the windows so far count, of
        which there are some always.
        """
        if not self.tested:
            return float("nan")
        pairs = self._pairs("test", model)
        end = time.perf_counter() + time_left()
        with unhurried():
            parts = self._in_order(pairs, model.scale, end)
            error = relative_error_of(model, parts, self.error_scale)
        return math.inf if math.isnan(error) else error

    def test_pairs(self, model: Model, count: int) -> Pair:
        """Return windows evenly from the test group, and what follows them."""
        pairs = self._pairs("test", model)
        inputs, targets = pairs[pairs.places(count)]
        return inputs.to(model.scale), targets.to(model.scale)

    def normalise(self, model: Model) -> None:
        """Normalise by mean and standard deviation of the training states.

        Deviations are rounded to powers of two, by which dividing and multiplying again is exact:
        any other changes a state by the same part of its last digit in every step, which adds up.
        """
        moments = self._statistics[0]
        spread = moments.scale
        if model.chart is not None:
            moments = self._in_chart(model.chart)
        model.set_normalisation(moments.mean, moments.scale, spread)
        model.set_advance(model.prediction_window * self.dataset.step)
        if model.linear_in_parameters:
            model.adapt(torch.from_numpy(self.some_states()))

    @cached_property
    def _statistics(self) -> tuple[_Moments, Domain, _Moments]:
        """Return moments and domain of the training states, and moments of moving components."""
        system, states = self.dataset.system, self.held("train")
        moving = _Moments(states[..., system.moving])
        return _Moments(states), Domain.of_states(states, system), moving

    @property
    def error_scale(self) -> ErrorScale:
        """The size that errors are relative to, of the training states."""
        system = self.dataset.system
        return ErrorScale((*system.moving,), spread_of(system, self._statistics[2].deviation))

    def _in_chart(self, chart: ChartMap) -> _Moments:
        """Return moments of the training states in other coordinates; angles have mean zero."""
        key = "chart", *chart.texts
        if key not in self._made:
            new = chart(torch.from_numpy(self.held("train"))).numpy()
            moments = _Moments(np.where(np.isfinite(new), new, np.nan))
            moments.mean[list(chart.angles)] = 0.0
            self._made[key] = moments
        return self._made[key]

    def some_states(self) -> np.ndarray:
        """Training states (state, dim), evenly, those that are finite."""
        states = self.held("train").reshape(-1, self.dataset.dim)
        some = states[:: max(1, len(states) // _RANGE_STATES)]
        return some[np.isfinite(some).all(1)]

    def held(self, group: str) -> np.ndarray:
        """Return the states of a group, which are read once.

        Trajectories of large groups are chosen evenly, and of very long ones the beginnings.
        """
        if (group,) not in self._made:
            count, times, dim = self.dataset.shapes[group]
            longest = max(IN_MEMORY // (8 * dim), 2)
            rows = max(IN_MEMORY // (8 * dim * min(times, longest)), 1)
            chosen = slice(None, None, -(-count // rows)), slice(longest)
            self._made[group,] = self.dataset.states(group, *chosen)
        return self._made[group,]

    def _pairs(self, group: str, model: Model, horizon: int = 1) -> Pairs:
        like, shape = model.scale, (model.window, model.prediction_window, horizon)
        key = group, *shape, like.dtype, like.device
        if key not in self._made:
            where = f"{self.dataset.path}, {group}"
            self._made[key] = Pairs.of_states(self.held(group), *shape, where).to(like)
        return self._made[key]

    def _in_order(self, pairs: Pairs, like: torch.Tensor, end: float) -> Iterator[Pair]:
        for chosen in pairs.places(_TEST_WINDOWS).split(_AT_ONCE):
            inputs, targets = pairs[chosen]
            yield inputs.to(like), targets.to(like)
            if time.perf_counter() > end:
                return


class _Moments:
    """Mean and standard deviation of each component (dim,), of the states that were observed.

    Parameters
    ----------
    states
        States (trajectory, time, dim).
    """

    def __init__(self, states: np.ndarray) -> None:
        missing = np.isnan(states)
        average, variance = (np.nanmean, np.nanvar) if missing.any() else (np.mean, np.var)
        count = (~missing).sum((0, 1))
        with warnings.catch_warnings():  # warnings of components without observations
            warnings.simplefilter("ignore")
            mean, spread = (np.where(count > 0, f(states, (0, 1)), 0) for f in (average, variance))
        self.mean, self.deviation = mean, np.sqrt(count * spread / np.maximum(count, 1))

    @property
    def scale(self) -> np.ndarray:
        """The deviation to the nearest power of two (dim,), 1 of what is constant."""
        deviation = np.where(self.deviation > 0, self.deviation, 1.0)
        return 2.0 ** np.round(np.log2(deviation))
