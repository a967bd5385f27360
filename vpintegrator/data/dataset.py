"""Opening datasets: states, and windows of them, are read when they are asked for."""

from __future__ import annotations

import copy
import os
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from vpintegrator.arguments import as_path, of_kind
from vpintegrator.data.dataset_file import (
    COMPLETE,
    FORMAT,
    FORMAT_VERSION,
    condition_variable,
    find_shards,
    state_of,
)
from vpintegrator.data.observation import Observation
from vpintegrator.data.split import GROUPS
from vpintegrator.data.variation import STEP, Variation
from vpintegrator.dynamics import Family, System, solve
from vpintegrator.dynamics.expressions.parsing import check_name
from vpintegrator.dynamics.solve import bounded_sizes
from vpintegrator.dynamics.state_file import read_system
from vpintegrator.errors import InputError
from vpintegrator.storage.reading import check_shape, open_hdf5, reading
from vpintegrator.storage.toml import read_toml

if TYPE_CHECKING:
    from vpintegrator.data.pairs import Pairs

_CHECKED = 4, 4  # trajectories, and states of each, that a system put beside them must give
_REPRODUCED = 1e-6  # of the size of a component: other solvers, and tolerances of recipes


class Dataset:
    """A dataset on disk; states are read when asked for. Made by :func:`open_dataset`.

    Attributes
    ----------
    path
        The file.
    title
        Title in words.
    system
        The system whose trajectories it holds; one without equations where they were measured and
        nothing else is known.
    varied
        Range of the ``step`` (first) and of each parameter that varies from trajectory to
        trajectory, by name. Empty if nothing varies.
    recipe
        Text of the recipe that made it, or of what was imported.
    seed
        Seed of the random numbers.
    accuracy
        Errors of the states, as far as known, see :func:`vpintegrator.generate`.
    is_complete
        Whether every state was observed; else some are NaN.
    fingerprint
        Hash of all states.
    shapes
        (trajectory, time, dim) of each group.
    attributes
        All attributes of the file.

    Examples
    --------
    >>> dataset = vp.generate("pendulum", "pendulum.h5", count=10, steps=5, overwrite=True)
    >>> dataset.states("train").shape  # (trajectory, time, dim)
    (7, 6, 2)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = path = as_path("path", path)
        with open_hdf5(path, FORMAT, FORMAT_VERSION) as f:
            self.attributes: dict[str, Any] = f.attributes
            self._step = f.number("step", positive=True)
            self.title = f.text("title")
            self.recipe = f.text("recipe")
            self.seed = f.whole("seed")
            self.accuracy: dict[str, Any] = f.json("accuracy")
            self.is_complete = bool(f.whole("complete", 1))
            self.fingerprint = f.text("fingerprint")
            self.parameters: dict[str, Any] = f.json("parameters")
            self._system = f.text("system"), f.text("system_name")
            folder = find_shards(path, f)
            # names of what varies, and their ranges; the step comes first
            variation = Variation.from_table(f.json("varied", default={}), str(f))
            self.varied = variation.bounds
            for name in variation.parameters:
                check_name(name, f"{f}, [vary]")
            self.shapes: dict[str, tuple[int, ...]] = {}
            for name in GROUPS:
                self.shapes[name] = count, length, _ = state_of(f, name, folder).shape
                f.group(name).dataset("time", (length,))
                for variable in map(condition_variable, self.varied):
                    f.group(name).dataset(variable, (count,))
        sizes = [shape[0] * shape[1] for shape in self.shapes.values()]
        if len({shape[2] for shape in self.shapes.values()}) > 1 or not self.dim or not any(sizes):
            raise InputError(
                f"{path} holds no states of one system, but of the shapes {self.shapes}"
            )

    @property
    def step(self) -> float:
        """Time between states.

        Raises
        ------
        InputError
            If every trajectory has its own.
        """
        if STEP in self.varied:
            raise InputError(
                f"every trajectory of {self.path} has its own step, from {self.step_text}: take "
                'the first column of dataset.conditions("train"), or the range dataset.varied'
            )
        return self._step

    @property
    def step_text(self) -> str:
        """The step in words, or between which values it varies: ``0.2``, ``0.05 to 0.4``."""
        if STEP in self.varied:
            low, high = self.varied[STEP]
            return f"{low:g} to {high:g}"
        return f"{self._step:g}"

    @property
    def is_family(self) -> bool:
        """Whether trajectories differ in their step or parameters."""
        return bool(self.varied)

    @cached_property
    def family(self) -> Family | None:
        """The coefficients of step and parameters that vary, for models of all; else None."""
        if not self.varied:
            return None
        return Family(self.system, list(self.varied), None if STEP in self.varied else self.step)

    def conditions(
        self, group: str, trajectories: slice | int | np.ndarray = slice(None)
    ) -> np.ndarray:
        """Return step and parameters that vary, for trajectories of a group: (trajectory, name).

        The columns are float64 in the order of ``varied``. If nothing varies, there are no columns.

        Parameters
        ----------
        group
            ``train``, ``validation`` or ``test``.
        trajectories
            Numbers of trajectories, as for :meth:`states`.

        Raises
        ------
        InputError
            If there is no such group, or a value in the file is not finite, or no positive step.
        """
        count = self._shape(group)[:1]
        values = np.empty((*count, len(self.varied)))
        with open_hdf5(self.path, FORMAT, FORMAT_VERSION) as f:
            for column, name in zip(values.T, self.varied, strict=True):
                column[:] = f.group(group).array(condition_variable(name), count)
                if not np.isfinite(column).all() or (name == STEP and (column <= 0).any()):
                    kind = "positive" if name == STEP else "finite"
                    raise InputError(
                        f"{self.path}, {group}: the {name} of a trajectory is no {kind} number"
                    )
        return values[trajectories]

    @property
    def observation(self) -> Observation:
        """Observation of generated states: which components or functions, hidden values, noise."""
        table = read_toml(self.recipe, f"recipe in {self.path}").get("observe", {})
        return Observation.from_table(table, str(self.path))

    @cached_property
    def complete_system(self) -> System | None:
        """The system behind observed states that were generated, else None."""
        with open_hdf5(self.path, FORMAT, FORMAT_VERSION) as f:
            return read_system(f.group(COMPLETE), self.path) if COMPLETE in f else None

    def complete_states(
        self, group: str, trajectories: slice | int | np.ndarray = slice(None)
    ) -> np.ndarray:
        """Return the states behind observed ones, (trajectory, time, dim); no training reads them.

        Parameters
        ----------
        group, trajectories
            Arguments of :meth:`states`.

        Raises
        ------
        InputError
            If the dataset holds no others than its states.
        """
        count, length, _ = self._shape(group)
        with open_hdf5(self.path, FORMAT, FORMAT_VERSION) as f:
            if COMPLETE not in f:
                raise InputError(f"{self.path} holds no other states than those of its groups")
            states = f.group(COMPLETE).group(group).dataset("state", (count, length, None))
            with reading(str(self.path), (OSError, RuntimeError)):
                return np.asarray(states[trajectories])

    def complete_conditions(
        self, group: str, trajectories: slice | int | np.ndarray = slice(None)
    ) -> dict[str, np.ndarray]:
        """Return the step and parameters that vary behind observed states, told or not, by name.

        Parameters
        ----------
        group, trajectories
            Arguments of :meth:`states`.

        Returns
        -------
        dict of str to numpy.ndarray
            Values of each trajectory, (trajectory,); empty where nothing varies.
        """
        count = self._shape(group)[:1]
        with open_hdf5(self.path, FORMAT, FORMAT_VERSION) as f:
            if COMPLETE not in f:
                return {}
            root = f.group(COMPLETE)
            names = root.json("varied", default={})
            part = root.group(group)
            return {
                name: part.array(condition_variable(name), count)[trajectories] for name in names
            }

    @property
    def is_observed(self) -> bool:
        """Whether states are observations of a flow: measured, or with gaps."""
        return not self.is_complete or self.system.is_measured

    @cached_property
    def system(self) -> System:
        """The system whose trajectories these are."""
        text, name = self._system
        system = System.of_text(text, name, self.parameters, f"system in {self.path}")
        if system.dim != self.dim:
            raise InputError(
                f"{self.path} holds states of {self.dim} components, but its system has "
                f"{system.dim}"
            )
        return system

    def with_system(self, system: System) -> Dataset:
        """Return the dataset with another system in place of the file's.

        Files hold no code: a system of a Python function is put beside its trajectories by this.

        Parameters
        ----------
        system
            The system, which must give the first steps of some trajectories.

        Raises
        ------
        InputError
            If it has other components, or gives other states; the message says by how much.
        """
        of_kind("system", system, System, "a System")
        where = f"{system.name} does not give the trajectories of {self.path}"
        if self.varied:
            raise InputError(f"{where}, each of which has its own {', '.join(self.varied)}")
        if system.components != self.system.components:
            raise InputError(
                f"{where}: its components are {', '.join(system.components[:8])}, but those of the "
                f"states {', '.join(self.system.components[:8])}"
            )
        group = next(name for name, shape in self.shapes.items() if shape[0] and shape[1])
        states = self.states(group, *map(slice, _CHECKED))
        times = self.times(group)[: _CHECKED[1]]
        known = states[np.isfinite(states).all(axis=(1, 2))]
        times = np.rint(times - times[0]) if system.is_discrete else times - times[0]
        try:
            solution = solve(system, known[:, 0], times) if len(known) else known
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
        sizes = bounded_sizes(system, np.abs(known).max(axis=(0, 1), initial=0.0))
        difference = np.abs(solution - known)  # (trajectory, time, dim)
        if len(wrong := np.argwhere(difference > _REPRODUCED * sizes)):
            _, k, i = wrong[0]
            raise InputError(
                f"{where}: after {k} steps {system.components[i]} differs by {difference.max():.3g}"
                "; give the function, and the parameters, that they were made with"
            )
        return self.attached(system)

    def attached(self, system: System) -> Dataset:
        """Return the dataset with the system that made these trajectories, unchecked."""
        dataset = copy.copy(self)
        dataset.__dict__["system"] = system
        return dataset

    def __getstate__(self) -> dict[str, Any]:
        # a function may be of this process alone; the file tells the others what is known of it
        state = dict(self.__dict__)
        if "system" in state and not state["system"].has_formulas:
            del state["system"]
        return state

    @property
    def dim(self) -> int:
        """Number of components of a state."""
        return self.shapes["train"][2]

    @property
    def description(self) -> str:
        """Numbers of trajectories and steps in each group, in words."""
        counts, lengths, _ = zip(*self.shapes.values(), strict=True)
        is_cut = len({length for count, length, _ in self.shapes.values() if count and length}) > 1
        parts = zip(lengths if is_cut else counts, self.shapes, strict=True)
        groups = ", ".join(f"{n:,} {name}" for n, name in parts)
        if is_cut:
            text = f"{counts[0]:,}, cut in time: {groups}; steps of {self.step_text}"
        else:
            steps = "a step" if max(lengths) == 2 else f"{max(lengths) - 1:,} steps"
            text = f"{groups}; {steps} of {self.step_text} each"
        return text + self._varied_text

    def states(
        self,
        group: str,
        trajectories: slice | int | np.ndarray = slice(None),
        times: slice | int = slice(None),
    ) -> np.ndarray:
        """Return trajectories of a group, shape (trajectory, time, dim), float64.

        Parameters
        ----------
        group
            ``train``, ``validation`` or ``test``.
        trajectories, times
            Indices: slices, numbers (the dimension is then dropped) or, for trajectories, an
            increasing array of numbers. Only these states are read.

        Raises
        ------
        InputError
            If there is no such group.
        """
        shape = self._shape(group)
        with open_hdf5(self.path, FORMAT, FORMAT_VERSION) as f:
            state = state_of(f, group, find_shards(self.path, f))
            check_shape(state, shape, str(self.path))
            # other errors are mistakes in the indices
            with reading(str(self.path), (OSError, RuntimeError)):
                return np.asarray(state[trajectories, times])

    @property
    def _varied_text(self) -> str:
        ranges = self.varied.items()
        return "".join(f", {n} {low:g} to {high:g}" for n, (low, high) in ranges if n != STEP)

    def times(self, group: str) -> np.ndarray:
        """Return times of the states of a group, (time,); numbers of steps where these differ."""
        length = self._shape(group)[1:2]
        with open_hdf5(self.path, FORMAT, FORMAT_VERSION) as f:
            return f.group(group).array("time", length)

    def windows(
        self,
        window: int,
        prediction_window: int | None = None,
        horizon: int = 1,
        *,
        group: str = "train",
    ) -> Pairs:
        """All pairs of windows of a group as a ``torch.utils.data.Dataset`` in memory.

        The parameters are those of :func:`vpintegrator.windows`.
        """
        from vpintegrator.data.pairs import Pairs

        where = f"{self.path}, {group}"
        return Pairs.of_states(self.states(group), window, prediction_window, horizon, where)

    def _shape(self, group: str) -> tuple[int, ...]:
        if group not in self.shapes:
            raise InputError(f"{self.path} has no group '{group}'; it has {', '.join(self.shapes)}")
        return self.shapes[group]

    def __repr__(self) -> str:
        groups = ", ".join(f"{name} {shape}" for name, shape in self.shapes.items())
        varied = f"step {self.step_text}{self._varied_text}"
        return f"<Dataset {self.path}: {self._system[1]}, {varied}, {groups}>"


def open_dataset(path: str | os.PathLike[str], system: System | None = None) -> Dataset:
    """Open a dataset file. Only its attributes are read at once.

    Parameters
    ----------
    path
        The HDF5 file.
    system
        System of the trajectories, if it is a Python function; see
        :meth:`~vpintegrator.data.Dataset.with_system`.

    Raises
    ------
    InputError
        If there is no such file, it is not a dataset, or the system gives other states.

    Examples
    --------
    >>> dataset = open_dataset("rigid-body.h5")  # doctest: +SKIP
    >>> inputs, targets = dataset.windows(window=3)[:512]  # doctest: +SKIP
    """
    dataset = Dataset(path)
    return dataset if system is None else dataset.with_system(system)
