"""Number of observations that determine the next one: its search, and words for what it found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from vpintegrator.training.results import Fit

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
    first_fall: float = 10.0
    undetermined: float = 1e-2

    def note(self, fits: Sequence[Fit]) -> None:
        """Take the errors of all fits so far."""
        for fit in fits:
            if not fit.segment and math.isfinite(fit.error):
                window = fit.model.window
                self.errors[window] = min(fit.error, self.errors.get(window, math.inf))

    @property
    def goes_on(self) -> bool:
        """Whether a window that is longer by one may be better than those so far."""
        if not self.errors:
            return False
        last = max(self.errors)
        if self.errors.get(1, math.inf) <= self.determined or self.errors[last] <= self.good:
            return False
        return last == 1 or self._falls(last)

    @property
    def window(self) -> int:
        """The shortest window after which the error no longer falls."""
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
        if len(self.errors) < 2:
            return ""
        each = ", ".join(
            f"{self.errors[window]:.1e} with {number(window)}" for window in sorted(self.errors)
        )
        found = self.window
        plural = "observation determines" if found == 1 else "observations determine"
        head = f"{number(found)} {plural} the next"
        if self.is_undetermined:
            most = max(self.errors)
            head = f"no window of up to {number(most)} observations determines the next"
        return f"{head}: error {each}"

    @property
    def is_undetermined(self) -> bool:
        """Whether several windows were tried, and all of them err much."""
        return len(self.errors) > 1 and min(self.errors.values()) > self.undetermined

    def _falls(self, window: int) -> bool:
        before = [error for other, error in self.errors.items() if other < window]
        return self.errors[window] <= min(before, default=math.inf) / self.fall


def number(count: int) -> str:
    """Return a number in words up to ten."""
    return _NUMBERS[count] if 0 < count < len(_NUMBERS) else f"{count:,}"
