"""Heyoka's Taylor method as a classical method of the comparisons of benchmarks.

The formulas of a system are handed over in heyoka's expression language, parameters as the numbers
that they are. It compiles the Taylor method for them, which steps as many trajectories at once as
a vector register holds, each with steps of its own, and reads the states off the Taylor polynomials
of its steps (Biscani and Izzo, Mon. Not. R. Astron. Soc. 504 (2021) 2614-2628).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, ClassVar, final

import numpy as np

from vpintegrator.dynamics import System
from vpintegrator.dynamics.expressions.nodes import (
    Call,
    Function,
    Number,
    Symbol,
    Value,
    below,
    fold,
)
from vpintegrator.errors import InputError
from vpintegrator.maps import ClassicalMethod, find_method
from vpintegrator.maps.base import once_per_system

_PAPER = "Biscani and Izzo, Mon. Not. R. Astron. Soc. 504 (2021) 2614-2628"
_ROUNDING = float(np.finfo(np.float64).eps)
# Steps of h whose states are found at once, for all trajectories. Where one stretch ends the next
# begins: twice as long, up to so many, so that few steps cost little.
_STRETCH = 100
# formulas beyond which heyoka is asked for loops: straight code is faster by a third, but takes
# it minutes to make
_LARGEST_STRAIGHT = 300


@final
@dataclass(frozen=True, kw_only=True)
class TaylorMethod(ClassicalMethod):
    r"""The Taylor method of heyoka at a given tolerance.

    A trajectory that cannot be continued is NaN from there on and leaves the others alone; each is
    computed by itself, to the last bit.

    Attributes
    ----------
    tolerance
        Tolerance of the error of a step, relative or, for components smaller than 1, absolute. The
        order of the polynomials follows from it:
        :math:`\lceil 1 - \tfrac{1}{2} \ln(\text{tolerance}) \rceil`.

    Raises
    ------
    InputError
        If the tolerance is not between the rounding unit and 1.
    """

    needs_formulas: ClassVar[bool] = True

    tolerance: float = _ROUNDING

    def __post_init__(self) -> None:
        if not _ROUNDING <= self.tolerance < 1:
            raise InputError(
                f"{self.name}: the tolerance {self.tolerance:g} must be at least {_ROUNDING:.1e}, "
                "the limit of double precision, and below 1"
            )

    def at_tolerance(self, tolerance: float, name: str) -> TaylorMethod:
        return replace(
            self,
            name=name,
            title=f"Taylor, heyoka ({tolerance:g})",
            order=_order(tolerance) if 0 < tolerance < 1 else 0,  # else it is refused
            tolerance=tolerance,
            source=f"heyoka's Taylor method at the tolerance {tolerance:g}, sampled at the step: "
            + _PAPER,
        )

    def check(self, system: System) -> None:
        if find_spec("heyoka") is None:
            raise InputError(
                f"{self.name} needs the package heyoka, which is not installed: pip install heyoka"
            )
        import heyoka

        for node in below(system.equations.vector_field):
            if isinstance(node, Call) and node.function.name != "**":
                name = node.function.name
                if not hasattr(heyoka, name):
                    raise InputError(f"heyoka knows no function {name}; take another method")

    def iterate(
        self, system: System, initial: np.ndarray, step: float, parameters: Sequence[Any] = ()
    ) -> Iterator[np.ndarray]:
        state, size = np.array(initial, dtype=np.float64), 1
        while True:
            for new in _stretch(self, system, step, state, size).swapaxes(0, 1):
                yield new
            state, size = new.copy(), min(2 * size, _STRETCH)


def _stretch(
    method: TaylorMethod, system: System, step: float, first: np.ndarray, size: int
) -> np.ndarray:
    """Return the next states (trajectory, time, dim)."""
    integrator, time_index = _integrator(system, method.tolerance), system.explicit_time
    states = np.full((len(first), size, first.shape[1]), np.nan)
    finite = np.flatnonzero(np.isfinite(first).all(axis=1))
    lanes, later = integrator.batch_size, step * np.arange(size + 1)[:, None]
    phase = first if time_index is None else first[:, :time_index]
    for begin in range(0, len(finite), lanes):
        own = finite[begin : begin + lanes]
        filled = np.resize(own, lanes)  # the last batch is filled up with its own
        times = np.zeros(lanes) if time_index is None else first[filled, time_index]
        grid = np.ascontiguousarray(times + later)
        integrator.set_time(times)
        integrator.state[:] = phase[filled].T
        found = integrator.propagate_grid(grid)[1][1:, :, : len(own)].transpose(2, 0, 1)
        if time_index is None:
            states[own] = found
        else:
            states[own, :, :time_index] = found
            ended = np.isnan(found).any(axis=2)
            states[own, :, time_index] = np.where(ended, np.nan, grid[1:, : len(own)].T)
    return states


@once_per_system
def _made(_: System) -> dict[float, Any]:
    """Return the integrators of a system by tolerance."""
    return {}


def _integrator(system: System, tolerance: float) -> Any:
    """Return heyoka's integrator of a batch, made once for a system and a tolerance."""
    import heyoka

    if tolerance not in _made(system):
        e, phase = system.equations, system.phase_dim
        variables = [heyoka.make_vars(f"z{i}") for i in range(phase)]
        symbols = dict(zip(e.symbols, [*variables, heyoka.time], strict=False))
        rates = in_heyoka(e.vector_field[:phase], symbols)
        _made(system)[tolerance] = heyoka.taylor_adaptive_batch(
            list(zip(variables, rates, strict=True)),
            np.zeros((phase, heyoka.recommended_simd_size())),
            tol=tolerance,
            compact_mode=len(below(e.vector_field)) > _LARGEST_STRAIGHT,
        )
    return _made(system)[tolerance]


def in_heyoka(values: tuple[Value, ...], symbols: Mapping[Symbol, Any]) -> list[Any]:
    """Return formulas in heyoka's expression language.

    Parameters
    ----------
    values
        The formulas.
    symbols
        Variables of heyoka by symbol.
    """
    return fold(values, symbols, _Heyoka())


class _Heyoka:
    """Heyoka's expressions as the meaning of formulas."""

    def number(self, value: Number) -> Any:
        import heyoka

        return heyoka.expression(float(value))

    def sum(self, constant: Number, terms: list[tuple[Any, Number]]) -> Any:
        import heyoka

        parts = [term if c == 1 else float(c) * term for term, c in terms]
        return heyoka.sum([*parts, self.number(constant)] if constant else parts)

    def product(self, factors: list[tuple[Any, Number]]) -> Any:
        import heyoka

        return heyoka.prod([base if e == 1 else base ** float(e) for base, e in factors])

    def call(self, function: Function, *arguments: Any) -> Any:
        import heyoka

        known = operator.pow if function.name == "**" else getattr(heyoka, function.name)
        return known(*arguments)


def _order(tolerance: float) -> int:
    """Return the order of the polynomials.

    Jorba and Zou, Experimental Mathematics 14 (2005) 99-117.
    """
    return math.ceil(1 - math.log(tolerance) / 2)


HEYOKA = TaylorMethod(
    name="heyoka",
    title="Taylor, heyoka",
    order=_order(_ROUNDING),
    source="heyoka's Taylor method at its own tolerance, 2.2e-16 (heyoka-1e-9: at another), "
    f"sampled at the step: {_PAPER}",
)


def with_heyoka(name: str) -> ClassicalMethod:
    """Return a classical method by name, also ``heyoka`` or ``heyoka-1e-9``."""
    if name == "heyoka":
        return HEYOKA
    if name.startswith("heyoka-"):
        return HEYOKA.at_tolerance(float(name.partition("-")[2]), name)
    return find_method(name)
