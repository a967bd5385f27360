"""Options of an import: reading, identification and sharing out of trajectories."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vpintegrator.data.split import Split, consecutive
from vpintegrator.dynamics import System
from vpintegrator.errors import InputError

_IRREGULAR = ("pairs", "resample")
_FEW = 5  # trajectories from which on whole ones are dealt out, and not cut in time


@dataclass(frozen=True)
class Reading:
    """Options for reading states from a source.

    Attributes
    ----------
    step
        Time between two states. By default the step that the file gives, by times or as a number.
    times
        Times (time,) or (trajectory, time), instead of a step, for arrays.
    components
        Names of the components, for arrays.
    variable
        Name of the array, if a file holds several; or, separated by commas, names of the arrays or
        columns that are the components.
    decimal
        Decimal mark of a text file, ``"."`` or ``","``; detected by default.
    columns
        Names of the columns of a text file without a header, ``["time", "q", "p"]``; or new names
        of columns of a header, ``{"angle": "theta", "Versuch": "run"}``.
    missing
        Whether states may be missing: NaN, or times left out. No window that lacks a state is used.
        Trajectories of a table may differ in length in any case.
    irregular
        Treatment of states at irregular times. ``"pairs"``: each pair of neighbours is a trajectory
        of two states with its own step. ``"resample"``: cubic splines give states at equal steps;
        the error of resampling is estimated, and reported in ``guessed`` of the recipe. By default
        pairs are taken if steps differ by more than a tenth and neither ``step`` nor ``missing`` is
        given; times that are regular except for gaps or rounding are then refused. A single
        component without equations is resampled by default, because the component needs windows.
    longest_step
        The longest step of a pair; longer ones are left out. By default 10 times the median.
    parameter_columns
        Names of columns or arrays that are parameters, or inputs held from one time to the next,
        instead of components. If a parameter changes along a trajectory, pairs are taken.

    Raises
    ------
    InputError
        If a step is not a positive number, or options contradict one another.
    """

    step: float | None = None
    times: Any = None
    components: Sequence[str] | None = None
    variable: str | None = None
    decimal: str | None = None
    columns: Sequence[str] | Mapping[str, str] | None = None
    missing: bool = False
    irregular: str | None = None
    longest_step: float | None = None
    parameter_columns: Sequence[str] = ()

    def __post_init__(self) -> None:
        for name in ("step", "longest_step"):
            value = getattr(self, name)
            if value is not None and not (np.isfinite(value) and value > 0):
                raise InputError(f"{name} = {value!r} must be a positive number")
        if self.irregular not in (None, *_IRREGULAR):
            raise InputError(
                f"irregular = {self.irregular!r}: expected one of {', '.join(_IRREGULAR)}"
            )
        if self.irregular == "pairs" and self.step is not None:
            raise InputError("pairs have their own steps, as their times say; leave step out")
        if isinstance(self.columns, str):
            raise InputError("columns is a list of names, or a dictionary of old and new names")
        if isinstance(self.parameter_columns, str):
            raise InputError("parameter_columns is a list of names")

    @property
    def interpolated(self) -> bool:
        """Whether states are brought to equal steps."""
        return self.irregular == "resample"


@dataclass(frozen=True)
class Identification:
    """The equations that are thought to be behind the data.

    Attributes
    ----------
    system
        The system: its name or file. Without one, what needs equations (classical methods, accurate
        solutions) is left out later on. How well the equations describe the data is found out, and
        a warning says so if they do not; the figures are in ``[equations]`` of the recipe. Where it
        declares angles that stay within one period in the data, they are continued over their
        jumps.
    parameters
        Parameters of the system.
    fit
        Names of its parameters to be estimated from what is trained on; the search begins at their
        values. The dataset's system has the values found, ``[equations.fitted]`` of the recipe
        values and standard errors.
    noise
        Standard deviation of the noise on the states, one number or one for each component of the
        system; estimated from the data by default.
    structure
        Structure of a map without known equations: ``"symplectic"``, ``"volume-preserving"`` or
        ``"none"``. By default components named as positions and momenta (q1, p1, or x, px) are
        taken for symplectic; other states are taken for those of a volume-preserving flow.
        Symplectic states are stored as positions, then momenta.
    topology
        ``"ring"`` or ``"chain"``: the components stand along a row of sites, the same at each site
        of a ring. Symplectic states have a position and a momentum at each site. Names such as u1,
        u2, ..., v1, v2, ... tell several fields; other states have one number at each site.
    """

    system: System | str | os.PathLike[str] | None = None
    parameters: Mapping[str, Any] | None = None
    fit: Sequence[str] | None = None
    noise: float | Sequence[float] | None = None
    structure: str | None = None
    topology: str | None = None


@dataclass(frozen=True)
class MeasuredClaims:
    """MeasuredClaims about measured states without equations.

    Attributes
    ----------
    structure, topology
        As of :class:`Identification`.
    """

    structure: str | None = None
    topology: str | None = None


@dataclass(frozen=True)
class Partial:
    """Observations of some components only, or of sums of them.

    Orbits are fitted to the observations of all times, regular or not, by maximum likelihood. The
    states of the dataset are those of the fitted orbits at equal steps. Where a system is given and
    the data have fewer components, nothing of this needs to be said.

    Attributes
    ----------
    observed
        What each column is: a component of the system, or a linear combination, as in
        ``["q[0]", "q[0] + 0.5*q[1]"]``. By default the columns have the components' names, or are
        the positions of a Hamiltonian system.
    positions_only
        Whether the columns are positions q of an unknown system with H = p.p/2m + V(q). V is
        learned: a Fourier sum of angles, a polynomial of other positions.
    angles
        Names of the positions that are angles of the period 2 pi; by default those whose unit is
        rad or deg.
    masses
        Mass of each position; 1 by default.
    potential_degree
        Total degree of V; chosen by leaving out trajectories by default.

    Raises
    ------
    InputError
        If options contradict one another.
    """

    observed: Sequence[str] | None = None
    positions_only: bool = False
    angles: Sequence[str] | None = None
    masses: Sequence[float] | None = None
    potential_degree: int | None = None

    def __post_init__(self) -> None:
        if self.observed is not None and self.positions_only:
            raise InputError(
                "observed names components of a known system; leave positions_only out"
            )
        for name in ("angles", "masses", "potential_degree"):
            if getattr(self, name) is not None and not self.positions_only:
                raise InputError(f"{name} is for a potential learned from positions_only")
        for name in ("observed", "angles"):
            if isinstance(getattr(self, name), str):
                raise InputError(f"{name} is a list of texts")


@dataclass(frozen=True)
class Sharing:
    """Assignment of trajectories to training, validation and test.

    Attributes
    ----------
    split, fractions
        ``"trajectory"`` assigns trajectories at random; ``"time"`` cuts each trajectory into a
        first, a middle and a last part. Fractions are the parts of train, validation and test. By
        default by trajectory if there are at least five, and 0.7, 0.15, 0.15.
    seed
        Seed of the random assignment.
    """

    split: Split | str | None = None
    fractions: Sequence[float] | None = None
    seed: int = 0

    def deal(self, count: int, length: int) -> tuple[Split, dict[str, tuple[Any, slice]]]:
        """The split of trajectories, and the numbers and the times of those of each group."""
        split = self.split or ("trajectory" if count >= _FEW else "time")
        if isinstance(split, str):
            split = Split(split, None if self.fractions is None else tuple(self.fractions))
        if not isinstance(split, Split):
            raise InputError(
                f"split = {split!r}: expected 'trajectory', 'time' or a vpintegrator.data.Split; "
                "fractions = (0.7, 0.15, 0.15) gives the parts"
            )
        if split.by == "time":
            cut = consecutive(split.counts(length, fewest=2))
            return split, {group: (np.arange(count), part) for group, part in cut.items()}
        order = np.random.default_rng(self.seed).permutation(count)
        cut = consecutive(split.counts(count))
        return split, {
            group: (np.sort(order[part]), slice(0, length)) for group, part in cut.items()
        }
