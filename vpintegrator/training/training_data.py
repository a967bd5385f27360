"""Training data of a dataset; values read or computed once serve every training on it."""

from __future__ import annotations

import math
import os
import platform
import warnings
from dataclasses import replace
from functools import cache, cached_property
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
import torch

from vpintegrator.arguments import of_kind
from vpintegrator.data import Dataset, open_dataset
from vpintegrator.data.pairs import Pair, Pairs
from vpintegrator.data.windows import chains
from vpintegrator.dynamics import System
from vpintegrator.dynamics.family import STEP, Family
from vpintegrator.dynamics.solve import states_between
from vpintegrator.dynamics.structure import spread_of
from vpintegrator.dynamics.training_domain import Domain
from vpintegrator.errors import InputError
from vpintegrator.maps import Map
from vpintegrator.models import Model
from vpintegrator.models.family import FamilyParameters
from vpintegrator.models.stored import History, Origin
from vpintegrator.nn.attention_diagnostics import attention_change
from vpintegrator.nn.composition import having
from vpintegrator.runtime.interrupts import unhurried
from vpintegrator.training.least_squares import trimmed
from vpintegrator.training.residuals import (
    ErrorScale,
    doubt,
    estimated_error,
    lead_time_errors,
    reciprocal_spread,
)

IN_MEMORY = 1 << 26  # bytes of states; of larger groups a part is read
_RANGE_STATES = 20_000  # by which layers see the range of their variables
FOLDS = 5  # trajectories from which on some of them are left out, and not the end of each
FEW = 1_000  # pairs of the training and validation groups, up to which none are held out
_VALIDATION_WINDOWS = 1000  # judged every epoch, which must stay cheap beside the epoch itself
_TEST_WINDOWS = 10_000  # by which the root mean square is known to a percent


@cache
def _versions() -> tuple[str, ...]:
    """Return Python and the packages that train, with their versions."""
    packages = ("vpintegrator", "torch", "numpy", "scipy")
    return f"Python {platform.python_version()}", *(f"{n} {version(n)}" for n in packages)


def _like(map: Map) -> torch.Tensor:
    """Return a tensor of the type and on the device that a map computes with."""
    return map.scale if isinstance(map, Model) else torch.zeros((), dtype=torch.float64)


class KnownPairs(NamedTuple):
    """Pairs of states that are not of the test group.

    Attributes
    ----------
    before : (pair, dim), or (pair, window, dim)
        States before a step, or windows of several.
    after : (pair, dim)
        States after the step.
    parameters : (pair, p) or None
        Of a family: the parameters of each.
    folds : (pair,)
        Number of the fold of each pair; the pairs of a fold are left out together: those that
        follow one another. Of few trajectories the last fifth of the time is the fold 0, and the
        others are never left out, -1: an error within an orbit says little on where it goes.
    """

    before: torch.Tensor
    after: torch.Tensor
    parameters: torch.Tensor | None
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
    equations
        Whether the equations of its system may be used. Otherwise training sees states, and what a
        file of measured states can declare: :meth:`vpintegrator.System.without_equations`.

    Raises
    ------
    InputError
        If equations are wanted and not known.
    """

    def __init__(self, dataset: Dataset, equations: bool = False) -> None:
        if equations and dataset.system.is_measured:
            raise InputError(
                f"{dataset.path} holds no equations that could be used: its states were measured; "
                "leave out equations"
            )
        self.dataset = dataset
        self.equations = equations
        self._cache: dict[tuple[Any, ...], Any] = {}

    @classmethod
    def of(
        cls, dataset: TrainingData | Dataset | str | os.PathLike[str], equations: bool = False
    ) -> TrainingData:
        """Return the training data of a dataset, or of the path of one."""
        if isinstance(dataset, TrainingData):
            return dataset
        kinds = (Dataset, str, os.PathLike)
        of_kind("dataset", dataset, kinds, "a dataset or the path of its file")
        dataset = dataset if isinstance(dataset, Dataset) else open_dataset(dataset)
        return cls(dataset, equations)

    @cached_property
    def family(self) -> Family | None:
        """Coefficients of step and parameters that vary; None where none does.

        Without equations these are step and parameters themselves.
        """
        dataset = self.dataset
        if self.equations or not dataset.varied:
            return dataset.family
        step = None if STEP in dataset.varied else dataset.step
        return Family(dataset.system.without_equations(), [*dataset.varied], step)

    @cached_property
    def system(self) -> System:
        """The system that training sees; of a family that of states and coefficients, of step 1."""
        if self.family is not None:
            return self.family.extended
        system = self.dataset.system
        return system if self.equations else system.without_equations()

    @property
    def knows_flow(self) -> bool:
        """Whether states between those of the data can be computed."""
        return self.equations and not self.dataset.is_observed

    @cached_property
    def knows_half_steps(self) -> bool:
        """Whether states in the middle of a step can be computed."""
        if not self.knows_flow or not self.system.is_discrete:
            return self.knows_flow
        states, k = self.some_states()
        start = self.extended(states[:1].numpy(), None if k is None else k[:1])
        return states_between(self.system, start, self.step, 2) is not None

    @cached_property
    def moving(self) -> list[int]:
        """Numbers of the components that change along training trajectories, without the time."""
        states = self.held("train")
        first = states[:, :1]
        with np.errstate(invalid="ignore"):  # states that were not observed
            changes = np.nanmax(abs(states - first), axis=(0, 1), initial=0.0)
            sizes = np.nanmax(abs(states), axis=(0, 1), initial=0.0)
        time = self.dataset.system.explicit_time
        constant = {i for i in range(self.dataset.dim) if changes[i] <= 1e-14 * sizes[i]}
        moving = [i for i in range(self.dataset.dim) if i not in constant | {time}]
        return moving or [*range(self.dataset.dim)]

    def provenance_of(self, map: Map) -> str:
        """Return the provenance of a map that is trained on these data, in words."""
        if self.equations and (map.reads_equations or not isinstance(map, Model)):
            return "made from the equations"
        count, times, _ = self.dataset.shapes["train"]
        return f"learned from {count * max(times - 1, 0):,} pairs of states"

    @property
    def step(self) -> float:
        """The step of this system."""
        return self.dataset.step if self.family is None else 1.0

    def extended(self, states: np.ndarray, parameters: Any) -> np.ndarray:
        """Return states (..., dim) of this system: of a family with coefficients beside them."""
        if self.family is None:
            return states
        k = self.family.components(np.asarray(parameters))
        return np.concatenate([states, np.broadcast_to(k, (*states.shape[:-1], k.shape[-1]))], -1)

    def has(self, group: str) -> bool:
        """Whether a group has trajectories with steps."""
        count, times, _ = self.dataset.shapes.get(group, (0, 0, 0))
        return count > 0 and times > 1

    @property
    def may_be_incomplete(self) -> bool:
        """Whether states may be observations of which one does not determine the next.

        These are measured or observed states that claim neither volume nor a symplectic form.
        """
        return self.why_complete is None

    @property
    def why_complete(self) -> str | None:
        """The reason why one state determines the next; None where states may be incomplete."""
        system = self.dataset.system
        if not system.is_measured or self.dataset.is_family:
            return "states of a system with known equations, or of many steps, are complete"
        if system.is_canonical or system.divergence_free:
            return "the states claim another structure"
        return None

    def has_windows(self, window: int) -> bool:
        """Whether training trajectories are longer than a window of so many states."""
        return self.dataset.shapes["train"][1] > window

    @property
    def is_few(self) -> bool:
        """Whether data are measured, and so few that no pairs are held out."""
        shapes = [self.dataset.shapes.get(group, (0, 1, 0)) for group in ("train", "validation")]
        pairs = sum(count * max(times - 1, 0) for count, times, _ in shapes)
        return self.dataset.is_observed and pairs <= FEW

    @property
    def known_pairs(self) -> KnownPairs:
        """The pairs of the training and validation groups.

        Examples
        --------
        >>> from vpintegrator.training.training_data import TrainingData
        >>> states = np.random.default_rng(0).normal(size=(20, 2, 3))
        >>> dataset = vp.import_dataset(states, "few.h5", step=1.0, overwrite=True)
        >>> before, after, _, folds = TrainingData(dataset).known_pairs
        >>> before.shape, len(set(folds.tolist()))  # three trajectories are the test group
        (torch.Size([17, 3]), 17)
        """
        return self.known_windows(1)

    def known_windows(self, window: int) -> KnownPairs:
        """Return the windows of the training and validation groups, and the states after them.

        Windows of several states that are given in one trajectory are of one fold.
        """
        if ("known", window) not in self._cache:
            self._cache["known", window] = self._known_windows(window)
        result: KnownPairs = self._cache["known", window]
        return result

    def _known_windows(self, window: int) -> KnownPairs:
        names = [name for name in ("train", "validation") if self.has(name)]
        groups = [
            Pairs.of_states(self.held(n), window, 1, parameters=self.parameters(n)) for n in names
        ]
        before, after, *parameters = map(
            torch.cat, zip(*(group[:] for group in groups), strict=True)
        )
        after = after[:, -1]
        if window == 1:
            before = before[:, 0]
            orbits = chains(before.numpy(), after.numpy())
        else:  # windows of one trajectory follow one another
            first = 0
            runs: list[np.ndarray] = []
            for name, group in zip(names, groups, strict=True):
                count, times, _ = self.held(name).shape
                runs.append(first + group.first.numpy() // times)
                first += count
            run = np.concatenate(runs)
            orbits = [np.flatnonzero(run == number) for number in np.unique(run)]
        order = np.concatenate(orbits)
        folds = np.repeat(np.arange(len(orbits)), [len(orbit) for orbit in orbits])
        if min(len(orbits), self.dataset.shapes["train"][0]) < FOLDS:
            folds = np.where(np.arange(len(order)) * FOLDS // len(order) < FOLDS - 1, -1, 0)
        return KnownPairs(
            before[order], after[order], parameters[0][order] if parameters else None, folds
        )

    @cached_property
    def chart(self) -> bool | None:
        """False if some training states have no place in the system's chart; else None."""
        system = self.system
        if system.chart is None:
            return None
        states = self.held("train").reshape(-1, self.dataset.dim)
        with np.errstate(all="ignore"):
            images = system.chart(states[np.isfinite(states).all(1)])
        return None if np.isfinite(images).all() else False

    @torch.no_grad()
    def known_error(self, model: Model) -> float:
        """Return the error of a map of one new state at the known pairs.

        A root mean square in units of the spread of each component, as leave-one-out errors are,
        without the largest twentieth where each pair is a trajectory. Infinite where the equations
        of an implicit map have no solution, or another than that of the fit.
        """
        known = self.known_windows(model.window)
        before, after, parameters, _ = known
        k = () if parameters is None else (parameters.to(model.scale),)
        windows = before[:, None] if model.window == 1 else before
        difference = model(windows.to(model.scale), *k)[:, -1] - after
        squares = (difference * reciprocal_spread(after)).square().mean(1).numpy()
        if not np.isfinite(squares).all():
            return math.inf
        return math.sqrt(trimmed(squares)[0] if known.are_single else squares.mean())

    def check(self, model: Model) -> None:
        """Refuse a model for other states; warn of one that does not fit the flow."""
        dataset = self.dataset
        system = self.dataset.system
        self.adopt(model)
        if dataset.dim != model.dim:
            raise InputError(
                f"the model is for states of {model.dim} components, but {dataset.path} holds "
                f"states of {dataset.dim}; make the model with dim={dataset.dim}"
            )
        is_symplectic = model.structure.is_symplectic or model.canonical
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

    def adopt(self, model: Model) -> None:
        """Let a model be a family of these steps and parameters, if they vary.

        Raises
        ------
        InputError
            If the model reads another number of coefficients.
        """
        count = 0 if self.family is None else len(self.family.coefficients)
        if count != model.parameter_count:
            raise InputError(
                f"the model {model.name} reads {model.parameter_count} coefficients, but step and "
                f"parameters of {self.dataset.path} have {count}; make it by vpintegrator.models."
                f"build, or with parameters={count}"
            )
        if self.family is not None:
            values = self.family.system.parameters
            nominal = {n: float(values[n]) for n in self.family.conditions if n in values}
            coefficients = self.family.coefficients
            step = self.family.step
            model.family = FamilyParameters(self.dataset.varied, coefficients, nominal, step)

    def pairs(self, model: Map, group: str = "train", horizon: int = 1) -> Pairs:
        """Return windows of a group, on the device of a model; some of large groups."""
        like = _like(model)
        shape = (model.window, model.prediction_window, horizon)
        key = group, *shape, like.dtype, like.device
        if key not in self._cache:
            where = f"{self.dataset.path}, {group}"
            pairs = Pairs.of_states(self.held(group), *shape, where, self.parameters(group))
            self._cache[key] = pairs.to(like)
        return self._cache[key]

    def held_out(self, model: Map) -> Pair:
        """Return pairs of windows by which the best weights are chosen: some, evenly from all.

        Few data without a validation group are judged by the training pairs; their models are
        chosen by cross-validation.

        Raises
        ------
        InputError
            If there are none.
        """
        group = "validation" if self.has("validation") else "train"
        if group == "train" and not self.is_few:
            raise InputError(
                f"{self.dataset.path} has no validation trajectories, by which the best weights "
                "are chosen; generate it with some in [trajectories]"
            )
        return self.pairs(model, group).evenly(_VALIDATION_WINDOWS).to(_like(model))

    def held_out_error(self, model: Map) -> tuple[float, float]:
        """Return the relative error on the windows that are held out, and its standard error."""
        pair = self.held_out(model)
        with unhurried():
            return estimated_error(model, pair, self.error_scale)

    def judge(self, map: Map, history: History) -> None:
        """Test a trained map, and let a model say what it was trained on."""
        history.test_error, history.test_deviation = self.test_error(map)
        history.warning = doubt(map, self.held_out(map), self.error_scale, history)
        if isinstance(map, Model):
            self.describe(map)

    def describe(self, model: Model) -> None:
        """Let a model say what it was trained on, and how far its attention and errors reach."""
        dataset = self.dataset
        model.origin = Origin(  # a model that was trained further is no longer a family's
            system=dataset.system,
            step=None if self.family else dataset.step,
            dataset=os.fspath(dataset.path),
            fingerprint=dataset.fingerprint,
            domain=self._statistics[1],
        )
        errors: list[float] = []
        if model.prediction_window > 1:
            with unhurried():
                errors = lead_time_errors(model, self.held_out(model), self.error_scale)
        change = None
        if self.family is None and model.window > 1:  # no attention reads parameters
            windows = self.held_out(model).inputs
            change = attention_change(model, windows[:: len(windows) // 100 or 1])
        model.record = replace(
            model.record,
            provenance=self.provenance_of(model),
            data=dataset.description,
            versions=_versions(),
            attention="" if change is None else change.words,
            lead_time_errors=tuple(errors),
        )

    def test_error(self, model: Map) -> tuple[float, float]:
        """Return the relative error on the test group, and its standard error.

        The estimate is made on all test windows, up to 10,000 drawn at random. Both are nan without
        a test group; the error is infinite where the map overflows.
        """
        if not self.has("test"):
            return math.nan, math.nan
        with unhurried():
            return estimated_error(model, self.test_windows(model), self.error_scale)

    def test_windows(self, model: Map) -> Pair:
        """Return the windows of the test error: those of the test group, or 10,000 at random."""
        generator = torch.Generator().manual_seed(0)
        return self.pairs(model, "test").sample(_TEST_WINDOWS, generator).to(_like(model))

    def normalise(self, model: Model) -> None:
        """Normalise by mean and standard deviation of the training states.

        Deviations are rounded to powers of two, by which dividing and multiplying again is exact:
        any other changes a state by the same part of its last digit in every step, which adds up.
        """
        self.adopt(model)
        if (parameters := self.parameters("train")) is not None:
            model.set_parameter_normalisation(torch.from_numpy(parameters))
        moments = normal = self._statistics[0]
        if (chart := model.chart) is not None:  # angles have mean zero
            new = chart(torch.from_numpy(self.held("train"))).numpy()
            normal = _Moments(np.where(np.isfinite(new), new, np.nan))
            normal.mean[list(chart.angles)] = 0.0
        model.set_normalisation(normal.mean, normal.scale, moments.scale)
        model.set_advance(model.prediction_window * self.step)
        if model.linear_in_parameters or any(having(model.core, "adapt")):
            model.adapt(*self.some_states())

    @cached_property
    def _statistics(self) -> tuple[_Moments, Domain, _Moments]:
        """Return moments and domain of the training states, and moments of moving components."""
        system = self.dataset.system
        states = self.held("train")
        moving = _Moments(states[..., self.moving])
        domain = Domain.of_states(states, system)
        if self.family is not None:  # invariants depend on parameters
            domain = Domain(domain.components, {})
        return _Moments(states), domain, moving

    @property
    def error_scale(self) -> ErrorScale:
        """The size that errors are relative to, of the training states."""
        system = self.dataset.system
        spread = spread_of(system, self._statistics[2].deviation, self.moving)
        return ErrorScale((*self.moving,), spread)

    def some_states(self) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Training states (state, dim), evenly, those that are finite; and their parameters."""
        held = self.held("train")
        parameters = self.parameters("train")
        states = torch.from_numpy(held.reshape(-1, self.dataset.dim))
        places = torch.arange(0, len(states), max(1, len(states) // _RANGE_STATES))
        places = places[states[places].isfinite().all(1)]
        if parameters is None:
            return states[places], None
        return states[places], torch.from_numpy(parameters)[places // held.shape[1]]

    def parameters(self, group: str) -> np.ndarray | None:
        """Return step and parameters of each held trajectory (trajectory, p), if they vary."""
        if self.family is None:
            return None
        trajectories, _ = self._chosen(group)
        return self.dataset.conditions(group, trajectories)

    def held(self, group: str) -> np.ndarray:
        """Return the states of a group, which are read once.

        Trajectories of large groups are chosen evenly, and of very long ones the beginnings.
        """
        if (group,) not in self._cache:
            self._cache[group,] = self.dataset.states(group, *self._chosen(group))
        return self._cache[group,]

    def _chosen(self, group: str) -> tuple[slice, slice]:
        """Return which trajectories and times of a group are held."""
        count, times, dim = self.dataset.shapes[group]
        longest = max(IN_MEMORY // (8 * dim), 2)
        rows = max(IN_MEMORY // (8 * dim * min(times, longest)), 1)
        return slice(None, None, -(-count // rows)), slice(longest)


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
        self.mean = mean
        self.deviation = np.sqrt(count * spread / np.maximum(count, 1))

    @property
    def scale(self) -> np.ndarray:
        """The deviation to the nearest power of two (dim,), 1 of what is constant."""
        deviation = np.where(self.deviation > 0, self.deviation, 1.0)
        return 2.0 ** np.round(np.log2(deviation))
