"""Number of observations that determine the next one: its search, and words for what it found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.spatial import cKDTree

from vpintegrator.maps import Map
from vpintegrator.training.results import Fit
from vpintegrator.training.training_data import TrainingData

_FEWEST = 200  # states by which it is known what neighbours share
_NUMBERS = ("", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


@dataclass
class WindowSearch:
    """Search for the number of observations that determine the next one, by held-out errors.

    Windows of 1, 2, 3, ... are tried as long as the error falls by half. One new state is predicted
    by each, so that errors compare.

    Attributes
    ----------
    errors
        Least error of each window that was tried, by its number of states.
    determined
        Error of maps of single states below which these determine the next one.
    good
        Error below which no longer window is tried: it would only add directions across the true
        windows, on which data say nothing.
    fall
        Factor by which the error of a longer window must fall.
    first_fall
        The same from single states to windows. Polynomials of two complete states follow a smooth
        flow somewhat better than those of one.
    shared
        Part of the error of single states that is a function of these, see :func:`shared_error`.
    complete
        Part from which on states count as complete: their map is a function of one state that
        polynomials of the sizes that were tried do not reach.
    doubtful, small
        Part, and error of single states, above and below which they may be complete all the same.
    undetermined
        Least error from which on a warning says that no window determines the next observation.

    Examples
    --------
    >>> from vpintegrator.training.windows import WindowSearch
    >>> search = WindowSearch({1: 3e-2, 2: 1e-13})
    >>> search.goes_on, search.window
    (False, 2)
    >>> search.words
    'two observations determine the next: error 3.0e-02 with one, 1.0e-13 with two'
    """

    errors: dict[int, float] = field(default_factory=dict)
    determined: float = 1e-6
    good: float = 1e-9
    fall: float = 2.0
    first_fall: float = 5.0
    shared: float = 0.0
    complete: float = 0.5
    doubtful: float = 0.1
    small: float = 3e-3
    undetermined: float = 1e-2

    @property
    def is_function(self) -> bool:
        """Whether the error of single states is a function of these, so that they are complete."""
        return self.shared > self.complete

    @property
    def is_doubtful(self) -> bool:
        """Whether windows may err less than single states that are complete all the same.

        That happens where the map varies fast in few places, as beside a collision.
        """
        is_small = self.errors.get(1, math.inf) < self.small
        return not self.is_function and (self.shared > self.doubtful or is_small)

    def note(self, fits: Sequence[Fit]) -> None:
        """Take the errors of all fits so far."""
        for fit in fits:
            if not fit.segment and math.isfinite(fit.error):
                window = fit.model.window
                self.errors[window] = min(fit.error, self.errors.get(window, math.inf))

    @property
    def goes_on(self) -> bool:
        """Whether a window that is longer by one may be better than those so far."""
        if not self.errors or self.is_function:
            return False
        last = max(self.errors)
        if self.errors.get(1, math.inf) <= self.determined or self.errors[last] <= self.good:
            return False
        return last == 1 or self._falls(last)

    @property
    def window(self) -> int:
        """The shortest window after which the error no longer falls."""
        if self.is_function:
            return 1
        taken = min(self.errors, default=1)
        for window in sorted(self.errors):
            if window > taken and self.errors[window] <= self.errors[taken] / self.fall:
                taken = window
        is_single = self.errors.get(1, math.inf) <= max(
            self.determined, self.first_fall * self.errors.get(taken, 0.0)
        )
        return 1 if is_single else taken

    @property
    def words(self) -> str:
        """A line on the windows that were tried; empty for single states alone."""
        if len(self.errors) < 2 or self.is_function:
            return ""
        each = ", ".join(
            f"{self.errors[window]:.1e} with {number(window)}" for window in sorted(self.errors)
        )
        shortest = self.window
        plural = "observation determines" if shortest == 1 else "observations determine"
        head = f"{number(shortest)} {plural} the next"
        if self.is_undetermined:
            most = max(self.errors)
            head = f"no window of up to {number(most)} observations determines the next"
        return f"{head}: error {each}"

    @property
    def is_undetermined(self) -> bool:
        """Whether several windows were tried, and all of them err much."""
        several = len(self.errors) > 1 and not self.is_function
        return several and min(self.errors.values()) > self.undetermined

    def _falls(self, window: int) -> bool:
        before = [error for other, error in self.errors.items() if other < window]
        return self.errors[window] <= min(before, default=math.inf) / self.fall


def number(count: int) -> str:
    """Return a number in words up to ten."""
    return _NUMBERS[count] if 0 < count < len(_NUMBERS) else f"{count:,}"


def shared_error(
    map: Map, data: TrainingData, most: float = 5e8, apart: int = 20, near: int = 10
) -> float:
    """Return the part of the error of a map of single states that is a function of these.

    An error that is a function of the state is shared by neighbours: the map is too simple. Noise,
    and what no one observed, are not. Squared differences of the errors at neighbours are taken to
    zero distance by a straight line, the Gamma test (Stefansson, Koncar, Jones, A note on the Gamma
    test, Neural Computing and Applications 5, 1997): what is left there is no function. Neighbours
    are of other trajectories, or more than ``apart`` steps away; the closest quarter of the pairs
    counts.

    Parameters
    ----------
    map
        A map of single states.
    data
        Training data.
    most
        Largest number of differences of components; fewer states are taken then, evenly spaced.
    apart
        Steps from which on states of a trajectory count as neighbours.
    near
        Neighbours of each state.

    Returns
    -------
    float
        About 1 for a function of the state, about 0 for noise; zero for fewer than 200 states.

    Examples
    --------
    >>> from vpintegrator.training.training_data import TrainingData
    >>> from vpintegrator.training.windows import shared_error
    >>> states = np.random.default_rng(0).uniform(-1, 1, (1000, 1))
    >>> dataset = vp.import_dataset((states, states**2), "square.h5", pairs=True)
    >>> shared_error(vp.models.LinearMap(dim=1), TrainingData(dataset)) > 0.99
    True
    """
    states = data.held("train")
    _, times, dim = states.shape
    before = states[:, :-1].reshape(-1, dim)
    after = states[:, 1:].reshape(-1, dim)
    place = np.arange(len(before))
    count = min(10_000, math.isqrt(int(most / dim)))
    place = place[:: -(-len(place) // count) or 1]
    place = place[np.isfinite(before[place]).all(1) & np.isfinite(after[place]).all(1)]
    z = before[place]
    with np.errstate(all="ignore"):
        error = after[place] - map.map(z[:, None])[:, 0]
    known = np.isfinite(error).all(1)
    place = place[known]
    z = z[known]
    error = error[known]
    if len(place) < _FEWEST:
        return 0.0
    spread = z.std(0)
    error = error / np.where(spread > 0, spread, 1.0)
    scaled = z / np.where(spread > 0, spread, 1.0)
    count = min(2 * apart + 1 + near, len(place))
    distance, other = cKDTree(scaled).query(scaled, k=count)  # (state, neighbour) each
    run = place // (times - 1)
    is_far = (run[other] != run[:, None]) | (abs(place[other] - place[:, None]) > apart)
    row, column = np.nonzero(is_far & (is_far.cumsum(1) <= near))
    if len(row) < _FEWEST:
        return 0.0
    squares = distance[row, column] ** 2
    halves = ((error[row] - error[other[row, column]]) ** 2).sum(1) / 2
    closest = np.argsort(squares, kind="stable")[: len(row) // 4]
    size = (error[row[closest]] ** 2).sum(1).mean()
    if not size > 0 or not np.ptp(squares[closest]) > 0:
        return 0.0
    _, left = np.polyfit(squares[closest], halves[closest], 1)
    return float(1 - left / size)
