"""The components of a state of a model: angles, constants of motion, time, symmetries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from vpintegrator.arguments import plain, whole
from vpintegrator.errors import InputError
from vpintegrator.models.arguments import Matrices, Periods
from vpintegrator.nn.symmetry import TOLERANCE, as_reversing_symmetries, symmetry_group


class Components:
    r"""Properties of the components of a state, in the order in which layers take them.

    Parameters
    ----------
    dim
        Components of a state.
    reversing_symmetries
        Matrices :math:`\rho` (dim, dim) with :math:`f(\rho z) = -\rho f(z)`.
    periodic
        Components that are angles, by number, with their periods.
    cyclic
        Components that polynomials do not depend on.
    conserved
        Components that stay as they are, bit by bit, and that the others depend on.
    scaling
        Conserved components without which nothing moves, as a step is.
    explicit_time
        Whether the last component is the time; it is conserved by the layers.

    Attributes
    ----------
    group : Tensor, (element, dim, dim)
        The symmetries that are products of two reversing ones.
    periods : dict
        The period of each angle.

    Raises
    ------
    InputError
        If numbers are none of components, or a symmetry connects an angle with another component.

    Examples
    --------
    >>> components = vp.models.Components(3, [[[1, 0, 0], [0, -1, 0], [0, 0, 1]]], conserved=[2])
    >>> components.moving, len(components.group)
    (2, 1)
    """

    def __init__(
        self,
        dim: int,
        reversing_symmetries: Matrices = (),
        periodic: Periods = (),
        cyclic: Sequence[int] = (),
        conserved: Sequence[int] = (),
        scaling: Sequence[int] = (),
        explicit_time: bool = False,
    ) -> None:
        self.dim = whole("dim", dim)
        self.reversing_symmetries = as_reversing_symmetries(reversing_symmetries, dim)
        self.group = symmetry_group(reversing_symmetries, dim)
        self.periods = _periods(periodic, dim)
        self.cyclic = _numbers("cyclic", cyclic, dim)
        self.conserved = _numbers("conserved", conserved, dim)
        self.scaling = _numbers("scaling", scaling, dim)
        self.explicit_time = explicit_time
        if explicit_time:
            self.conserved = sorted({*self.conserved, dim - 1})
        if not {*self.scaling}.issubset(self.conserved):
            raise InputError(
                f"scaling must be among the conserved components {self.conserved}, not "
                f"{self.scaling}"
            )
        if reason := angle_refusal(self.reversing_symmetries, self.periods):
            raise InputError(reason)

    @property
    def constants(self) -> int:
        """Number of conserved components, which must be the last ones.

        Raises
        ------
        InputError
            If they are not the last ones, or all.
        """
        count = len(self.conserved)
        if sorted(self.conserved) != list(range(self.dim - count, self.dim)) or count == self.dim:
            raise InputError(
                f"conserved must name the last of {self.dim} components, and not all of them, not "
                f"{self.conserved}"
            )
        return count

    @property
    def moving(self) -> int:
        """Number of the components before the conserved ones."""
        return self.dim - self.constants


def _numbers(name: str, numbers: Any, dim: int) -> list[int]:
    """Return numbers of components, each once."""
    if not isinstance(numbers, Iterable) or isinstance(numbers, str):
        raise InputError(f"{name} must be a list of components, not {numbers!r}")
    result = [plain(f"a component of {name}", number, (int,)) for number in numbers]
    if len({*result}) < len(result) or not all(0 <= number < dim for number in result):
        raise InputError(f"{name} must name components 0 ... {dim - 1}, each once, not {result}")
    return result


def _periods(periodic: Any, dim: int) -> dict[int, float]:
    """Return the periods of angles by number, from pairs (component, period)."""
    pairs = periodic.items() if isinstance(periodic, Mapping) else periodic
    periods: dict[int, float] = {}
    for pair in pairs if isinstance(pairs, Iterable) else [pairs]:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise InputError(f"periodic must hold pairs (component, period), not {pair!r}")
        component = plain("a component of periodic", pair[0], (int,))
        period = plain("a period of periodic", pair[1], (float,))
        if not 0 <= component < dim or component in periods:
            raise InputError(
                f"periodic must name components 0 ... {dim - 1}, each once, not {component}"
            )
        if period <= 0:
            raise InputError(f"periodic: a period must be positive, not {period}")
        periods[component] = period
    return periods


def angle_refusal(symmetries: torch.Tensor, periods: Mapping[int, float]) -> str | None:
    """Return which component a symmetry connects with an angle of another period, or None."""
    connected = (symmetries.abs() > TOLERANCE).any(0)  # (dim, dim)
    for i, j in connected.nonzero().tolist() if periods else ():
        if periods.get(i) != periods.get(j):
            return (
                f"a reversing symmetry connects the components {i} and {j}, which are not "
                "angles of the same period; leave out the symmetry, or periodic"
            )
    return None
