"""Assignment of trajectories, or of their parts in time, to training, validation and test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vpintegrator.arguments import is_number, one_of
from vpintegrator.errors import InputError
from vpintegrator.storage.toml import check_keys

GROUPS = ("train", "validation", "test")
USUAL_FRACTIONS = (0.7, 0.15, 0.15)
_WAYS = ("trajectory", "time")


@dataclass(frozen=True)
class Split:
    """A way to share trajectories out among the groups.

    Attributes
    ----------
    by
        ``"trajectory"``: every trajectory belongs to one group. ``"time"``: each is cut, its first
        part for training, the next for validation and the last for testing.
    fractions
        Parts of the groups train, validation and test, which add up to 1. None for trajectories
        whose numbers are given.

    Raises
    ------
    InputError
        If there is no such way, or the fractions are no parts of a whole.

    Examples
    --------
    >>> vp.data.Split("time", (0.5, 0.25, 0.25)).by
    'time'
    """

    by: str = "trajectory"
    fractions: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        one_of("split by", self.by, _WAYS)
        given = USUAL_FRACTIONS if self.fractions is None else self.fractions
        sound = len(given) == len(GROUPS) and all(is_number(f) and 0 <= f <= 1 for f in given)
        if not sound or abs(sum(given) - 1) > 1e-6 or not given[0] > 0:
            raise InputError(
                f"split, fractions {', '.join(map(str, given))}: expected the parts of "
                f"{', '.join(GROUPS)}, which add up to 1, as in 0.7, 0.15, 0.15"
            )

    @classmethod
    def from_table(cls, table: Mapping[str, Any], where: str) -> Split:
        """Read the table ``[split]`` of a recipe."""
        known = ("by", *GROUPS)
        check_keys(table, known, f"{where}, [split]")
        given = [table.get(group) for group in GROUPS]
        fractions = None if given == [None] * 3 else tuple(0 if f is None else f for f in given)
        return cls(table.get("by", "trajectory"), fractions)

    @property
    def table(self) -> dict[str, Any]:
        """The table that makes an equal split; empty for the usual one."""
        if self == Split():
            return {}
        return {"by": self.by, **dict(zip(GROUPS, self.fractions or USUAL_FRACTIONS, strict=True))}

    def counts(self, total: int, fewest: int = 1) -> tuple[int, ...]:
        """Return the number of trajectories, or times, of each group out of ``total``.

        A group whose fraction is not 0 gets at least ``fewest``.

        Raises
        ------
        InputError
            If there are not enough of them.
        """
        fractions = self.fractions or USUAL_FRACTIONS
        counts = [max(round(f * total), fewest) if f else 0 for f in fractions]
        counts[0] = total - counts[1] - counts[2]
        while counts[0] < fewest < max(counts[1:]):
            counts[1 if counts[1] > counts[2] else 2] -= 1
            counts[0] += 1
        if counts[0] < fewest:
            raise InputError(
                f"{total} parts by {self.by} are too few for the groups {', '.join(GROUPS)}; take "
                f"more, other fractions, or split by the other of {' and '.join(_WAYS)}"
            )
        return tuple(counts)


def consecutive(counts: Sequence[int]) -> dict[str, slice]:
    """Return the groups' parts, one after the other."""
    ends = np.cumsum(counts)
    return {
        group: slice(int(end - count), int(end))
        for group, count, end in zip(GROUPS, counts, ends, strict=True)
    }
