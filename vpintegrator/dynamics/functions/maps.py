"""Maps of Python functions, such as a turn of a ring: recorded as formulas, or called."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from vpintegrator.dynamics.arrays import as_given, float_array
from vpintegrator.dynamics.claims import Claims
from vpintegrator.dynamics.functions.calls import FunctionCall, Values, read_call
from vpintegrator.dynamics.functions.derivatives import (
    ScalarOfStates,
    derivatives,
)
from vpintegrator.dynamics.functions.function_checks import MapChecks, sound_derivatives
from vpintegrator.dynamics.functions.function_system import (
    DECLARED,
    CalledFunction,
    called_text,
    require_readable,
    sampled,
)
from vpintegrator.dynamics.functions.given import GivenFunction, component_names
from vpintegrator.dynamics.functions.tracing import NotTraceable
from vpintegrator.dynamics.system import System
from vpintegrator.errors import InputError, nearest
from vpintegrator.names import STRUCTURES
from vpintegrator.storage.toml import toml_text

_AGREEMENT = 1e-11  # relative difference of a function from its formulas
_EXACT = 1e-12  # relative error of derivatives by formula


class Map(System):
    """A map of a Python function, such as a turn of a ring, that is iterated.

    Made by :meth:`from_function`; a system like any other, whose step is 1.

    Parameters
    ----------
    text, name, parameters, source, parent, family, derive
        Arguments of :class:`vpintegrator.System`.

    Examples
    --------
    >>> def turn(x, px, K=0.6):
    ...     px = px + K * np.sin(x)
    ...     return x + px, px
    >>> standard = vp.Map.from_function(turn, dim=2, periodic=["x1"])
    >>> standard.structure, standard.map([0.0, 1.0])
    ('symplectic map', array([1., 1.]))
    """

    @classmethod
    def from_function(
        cls,
        turn: Callable[..., Any],
        dim: int | None = None,
        components: Sequence[str] | None = None,
        *,
        structure: str | None = None,
        reversing_symmetries: Sequence[Any] = (),
        invariants: Mapping[str, Callable[..., Any]] | None = None,
        periodic: Mapping[str, float | str] | Sequence[str] | None = None,
        sample: Any = None,
        parameters: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> Map:
        r"""Make a map of a Python function from a state to the next one.

        Parameters
        ----------
        turn
            ``turn(z)`` of a state of shape (dim,), or of its components one by one,
            ``turn(x, px)``, with NumPy's functions or PyTorch's, and with ``parameters`` by
            keyword. A function for batches takes (..., dim) or (dim, ...).
        dim, components, sample, parameters, name
            Arguments of :meth:`vpintegrator.System.from_function`. Names such as ``x, px, y, py``
            tell positions from momenta; where they do not, the state of a symplectic map has all
            positions first. Default names are x1, x2, ...
        structure
            ``symplectic``, ``volume-preserving`` or ``none``; by default what is found.
        reversing_symmetries
            Matrices :math:`\rho`, or the signs on their diagonals, with
            :math:`\rho M \rho M = \mathrm{id}`.
        invariants, periodic
            Arguments of :meth:`vpintegrator.System.from_function`.

        Raises
        ------
        InputError
            If the function cannot be called so, returns something else, or a declared property
            does not hold; the message says by how much it fails, and where.

        Examples
        --------
        >>> map = vp.Map.from_function(lambda z: np.array([z[1], -z[0]]), dim=2)
        >>> map.structure
        'symplectic map'
        """
        if turn is None:
            raise InputError("turn must be a function, not None")
        names = component_names(dim, components, False)
        if components is None:
            names = [f"x{i + 1}" for i in range(len(names))]
        if structure is not None and str(structure) not in STRUCTURES:
            hint = nearest(str(structure), STRUCTURES) or f"; there are {', '.join(STRUCTURES)}"
            raise InputError(f"there is no structure '{structure}'{hint}")
        claims = Claims(
            reversing_symmetries=reversing_symmetries, invariants=invariants, periodic=periodic
        )
        given = turn, names, claims, sample, None, parameters, name
        return _made(GivenMap(*given, structure=structure))


class FunctionMap(CalledFunction, Map):
    """A map whose function is called, as no formulas say it.

    Parameters
    ----------
    text, name, source
        Arguments of :class:`vpintegrator.System`.
    values
        The map of states (state, dim).
    scalars
        Invariants that no formulas say, by name.
    reason
        Why the function is no formula.
    remade
        Makes the map again with other parameters.
    """

    def __init__(
        self,
        text: str,
        name: str,
        source: str,
        values: Values,
        scalars: Mapping[str, Values],
        reason: str,
        remade: Callable[[Mapping[str, Any]], Map],
    ) -> None:
        super().__init__(text, name, source=source)
        self._values, self.reason, self.remade = values, reason, remade
        for key, scalar in scalars.items():
            self.invariants[key] = ScalarOfStates(scalar, self.dim, False, key)

    @property
    def is_discrete(self) -> bool:
        return True

    @property
    def is_exact(self) -> bool:
        return True

    @property
    def conserved(self) -> list[int]:
        return []

    def map(self, state: Any) -> Any:
        array = float_array(self.checked_state(state))
        rows = array.reshape(-1, self.dim)
        found = self._values(rows, np.zeros(len(rows))) if len(rows) else rows
        return as_given(found.reshape(array.shape), state)

    def map_jacobian(self, state: Any) -> np.ndarray:
        array = np.asarray(self.checked_state(state), dtype=np.float64)
        rows = array.reshape(-1, self.dim)
        found = derivatives(self._values, rows, np.zeros(len(rows)))[..., :-1]
        return found.reshape(*array.shape, self.dim)

    def states_between(self, states: np.ndarray, parts: int) -> np.ndarray | None:
        return None


@dataclass
class GivenMap(GivenFunction):
    """A map with all that was said of it, and the structure that it keeps."""

    key: ClassVar[str] = "map"
    structure: str | None = None

    def read(self, function: Callable[..., Any]) -> FunctionCall:
        return read_call(function, "turn", self.parameters, components=len(self.components))


def _changed(given: GivenMap, changes: Mapping[str, Any]) -> Map:
    return _made(given.changed(changes))


def _made(given: GivenMap) -> Map:
    states, _ = sampled(given)
    assert given.call is not None
    times = np.zeros(len(states))
    values = Values(given.call, states.shape[1], given.parameters, states, times)
    text, reason = _recorded(given, values, states)
    if text is None:
        slopes, tolerance = sound_derivatives(values, states, times)
        slopes = slopes[..., :-1]
    else:
        slopes, tolerance = _undeclared(given, text).map_jacobian(states), _EXACT
    images = values(states, times)
    checks = MapChecks(images, slopes, states, tolerance, given.components, given.source)
    kept = {
        "symplectic": checks.symplectic(given.structure == "symplectic"),
        "divergence_free": checks.volume_preserving(given.structure == "volume-preserving"),
    }
    scalars = {
        name: Values(call, 0, given.parameters, states, times)
        for name, call in given.invariants.items()
    }
    for name, scalar in scalars.items():
        times = np.zeros(len(checks.states))
        checks.invariant(name, scalar(checks.states, times), scalar(checks.images, times))
    if text is not None:
        return _of_formulas(given, text, kept)
    found = _called(given, values, scalars, kept, reason)
    _check_symmetries(found, checks)
    return found


def _recorded(given: GivenMap, values: Values, states: np.ndarray) -> tuple[str | None, str]:
    """Return the text of the formulas of a map, or None and why there are none."""
    reason = ""
    for fixed in given.recordings():
        try:
            text = given.recorded_text(fixed)
            require_readable(given, text)
        except NotTraceable as error:
            reason = reason or str(error)
            continue
        found = _undeclared(given, text).map(states)
        expected = values(states, np.zeros(len(states)))
        scale = 1 + np.abs(np.nan_to_num(expected)).max()
        if np.allclose(found, expected, rtol=0, atol=_AGREEMENT * scale, equal_nan=True):
            return text, ""
        reason = "two calls with one state do not give the same"
    return None, reason


def _undeclared(given: GivenMap, text: str) -> System:
    """Return the map of a text without its declared properties, which nothing has checked yet."""
    table = {key: entry for key, entry in tomllib.loads(text).items() if key not in DECLARED}
    tables = {key: entry for key, entry in table.items() if isinstance(entry, Mapping)}
    values = {key: entry for key, entry in table.items() if key not in tables}
    return System(toml_text(values, tables), given.name, source=given.source)


def _of_formulas(given: GivenMap, text: str, kept: Mapping[str, bool]) -> Map:
    """The map of recorded formulas with the structure that was found, to rounding if need be."""
    declared = next((f"{key} = true\n" for key, holds in kept.items() if holds), "")
    try:
        return Map(f"{declared}{text}", given.name, source=given.source)
    except InputError:
        return Map(f"rounded = true\n{declared}{text}", given.name, source=given.source)


def _called(
    given: GivenMap,
    values: Values,
    scalars: Mapping[str, Values],
    kept: Mapping[str, bool],
    reason: str,
) -> FunctionMap:
    given.tables["defaults"] = {"step": 1.0}
    text, rest = called_text(given, values, scalars, kept)
    return FunctionMap(
        text, given.name, given.source, values, rest, reason, partial(_changed, given)
    )


def _check_symmetries(map: FunctionMap, checks: MapChecks) -> None:
    for number, rho in enumerate(map.reversing_symmetries, start=1):
        checks.symmetry(number, map.map(checks.images @ rho.T) @ rho.T)
    if map.periods:
        periods = np.array([map.periods.get(i, 0.0) for i in range(map.dim)])
        checks.periods(map.map(checks.states + periods), periods)
