"""The variables of a model, with their symmetries, and the functions in its couplings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from vpintegrator.arguments import plain, positive, whole
from vpintegrator.errors import InputError
from vpintegrator.models.arguments import Matrices, Periods
from vpintegrator.nn.layer import check_vanishing
from vpintegrator.nn.symmetry import TOLERANCE, as_reversing_symmetries, symmetry_group


class Components:
    r"""Properties of the components of a state, in the order in which layers take them.

    The last components may be such as layers read and do not move: constants of motion, then the
    time. Layers take them as parameters; a family has none. Numbers from ``dim`` on are those of
    the parameters of a family.

    Parameters
    ----------
    dim
        Components of a state.
    reversing_symmetries
        Matrices :math:`\rho` with :math:`f(\rho z) = -\rho f(z)`, (dim, dim), or for a family
        (dim + parameters, dim + parameters).
    periodic
        Components that are angles, by number, with their periods.
    cyclic
        Components that polynomials do not depend on.
    conserved
        The last components, before the time, that stay as they are, bit by bit.
    explicit_time
        Whether the last component is the time.
    parameters
        Number of the parameters of a family.
    vanishing
        Those of these parameters, from 0 on, at zero of which nothing moves.

    Attributes
    ----------
    group : Tensor, (element, dim + parameters, dim + parameters)
        The symmetries that are products of two reversing ones.
    moving
        Number of the components that layers move.
    read
        Number of parameters of the layers: the components that they do not move, or the parameters
        of a family.
    periods : dict
        The period of each angle.

    Raises
    ------
    InputError
        If numbers are none of components, conserved ones are not the last, or a symmetry connects
        an angle with another component.

    Examples
    --------
    >>> components = vp.models.Components(3, [[[1, 0, 0], [0, -1, 0], [0, 0, 1]]], conserved=[2])
    >>> components.moving, components.read
    (2, 1)
    """

    def __init__(
        self,
        dim: int,
        reversing_symmetries: Matrices = (),
        periodic: Periods = (),
        cyclic: Sequence[int] = (),
        conserved: Sequence[int] = (),
        explicit_time: bool = False,
        parameters: int = 0,
        vanishing: Sequence[int] = (),
    ) -> None:
        self.dim = whole("dim", dim)
        self.parameters = whole("parameters", parameters, 0)
        variables = dim + parameters
        self.reversing_symmetries = as_reversing_symmetries(reversing_symmetries, variables)
        self.group = symmetry_group(reversing_symmetries, variables)
        self.periods = _periods(periodic, dim)
        self.cyclic = _numbers("cyclic", cyclic, variables)
        self.explicit_time = explicit_time
        constant = {*_numbers("conserved", conserved, dim), *([dim - 1] if explicit_time else [])}
        self.moving = dim - len(constant)
        if constant != {*range(self.moving, dim)} or not self.moving:
            raise InputError(
                f"conserved must name the last of {dim} components, and not all of them, not "
                f"{sorted(constant)}"
            )
        if constant and parameters:
            raise InputError("layers of a family move all components: leave out conserved and time")
        self.read = variables - self.moving
        self.vanishing = [*vanishing]
        check_vanishing(self.vanishing, parameters)
        # arguments of layers
        self.of_parameters: dict[str, Any] = {"parameters": self.read, "vanishing": self.vanishing}
        _check_angles(self.reversing_symmetries, self.periods)

    def lifted(self, lift: int) -> Components:
        """Return the components of so many successive states beside one another, as one state."""
        starts = [self.dim * place for place in range(lift)]
        one = torch.eye(lift, dtype=torch.float64)
        return Components(
            self.dim * lift,
            [torch.kron(one, rho) for rho in self.reversing_symmetries],
            {start + i: period for start in starts for i, period in self.periods.items()},
            [start + i for start in starts for i in self.cyclic],
        )


class Functions(NamedTuple):
    """Functions in couplings, by the arguments of ``VolumePreservingFeedForward``."""

    functions: str
    width: int
    degree: int
    expressions: Sequence[str]
    activation: str
    initial_scale: float

    @property
    def are_neurons(self) -> bool:
        """Whether they are hidden layers, else polynomials."""
        return self.functions == "neurons"

    def check(self, components: Components, *others: bool) -> None:
        """Raise InputError for hidden layers with arguments that are for polynomials."""
        if self.are_neurons and (components.periods or len(self.expressions) or any(others)):
            raise InputError(
                "periodic, expressions, bases and sweep are for functions = polynomial; neurons "
                "take none of them"
            )


def _numbers(name: str, numbers: Any, count: int) -> list[int]:
    """Return numbers of components, each once."""
    if not isinstance(numbers, Iterable):
        raise InputError(f"{name} must be a list of components, not {numbers!r}")
    result = [plain(f"a component of {name}", number, (int,)) for number in numbers]
    if len({*result}) < len(result) or not {*result}.issubset(range(count)):
        raise InputError(f"{name} must name components 0 ... {count - 1}, each once, not {result}")
    return result


def _periods(periodic: Any, dim: int) -> dict[int, float]:
    """Return the periods of angles by number, from pairs (component, period)."""
    pairs = [*(periodic.items() if isinstance(periodic, Mapping) else periodic)]
    if not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
        raise InputError(f"periodic must hold pairs (component, period), not {periodic!r}")
    numbers = _numbers("periodic", [number for number, _ in pairs], dim)
    periods = [positive("a period of periodic", period) for _, period in pairs]
    return dict(zip(numbers, periods, strict=True))


def _check_angles(symmetries: torch.Tensor, periods: Mapping[int, float]) -> None:
    """Raise InputError if a symmetry connects an angle with one of another period."""
    connected = (symmetries.abs() > TOLERANCE).any(0)  # (dim, dim)
    for i, j in connected.nonzero().tolist():
        if periods.get(i) != periods.get(j):
            raise InputError(
                f"a reversing symmetry connects the components {i} and {j}, which are not "
                "angles of the same period; leave out the symmetry, or periodic"
            )
