"""Escape of a trajectory: beyond bounds, or by an expression."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from vpintegrator.dynamics import System
from vpintegrator.dynamics.expressions import parse
from vpintegrator.dynamics.state_function import ScalarFunction
from vpintegrator.dynamics.training_domain import TOLERANCE, Domain
from vpintegrator.errors import InputError

_COMPARISON = re.compile(r"([^<>]+)(<|>)=?([^<>]+)")
_LARGEST = np.finfo(np.float64).max


@dataclass(frozen=True)
class Escape:
    """Condition under which a state is outside; states that are not finite are always outside.

    Attributes
    ----------
    expression
        Comparison of components and parameters that holds outside, ``"q**2 + p**2 > 0.1"``.
    domain
        Training domain; states beyond it by more than a tenth of its width are outside.
    """

    expression: str | None = None
    domain: Domain | None = None

    def check(self, system: System) -> None:
        """Check that the expression is one of the system.

        Raises
        ------
        InputError
            If it is not.
        """
        if self.expression is not None:
            _difference(system, self.expression)

    @property
    def words(self) -> str:
        """Condition in words."""
        if self.expression is not None:
            return self.expression
        return "out of the training domain" if self.domain else "not finite"

    def box(self, system: System) -> np.ndarray:
        """Return the bounds of each component, (dim, 2)."""
        box = np.tile([-_LARGEST, _LARGEST], (system.dim, 1))
        if self.domain is not None:
            for name, bounds in _widened(self.domain).items():
                if name in self.domain.components:
                    box[system.components.index(name)] = bounds
        return box

    def outside(self, system: System, states: np.ndarray) -> np.ndarray | None:
        """Return a mask, uint8, of the states (some, count, dim) that are outside.

        None if :meth:`box` alone decides.
        """
        with np.errstate(all="ignore"):
            if self.expression is not None:
                found = _difference(system, self.expression)(states) > 0
                return np.ascontiguousarray(found, np.uint8)
            if self.domain is None or not self.domain.invariants:
                return None
            out = np.zeros(states.shape[:2], bool)
            bounds = _widened(self.domain)
            for name in self.domain.invariants:
                value = system.invariants[name](states)
                low, high = bounds[name]
                out |= ~((value >= low) & (value <= high))
        return out.astype(np.uint8)

    def mask(self, system: System, states: np.ndarray) -> np.ndarray:
        """Return a mask of the states (some, count, dim) that are outside."""
        low, high = self.box(system).T
        out = ~((states >= low) & (states <= high)).all(axis=-1)
        more = self.outside(system, states)
        return out if more is None else out | more.astype(bool)


def _widened(domain: Domain) -> dict[str, np.ndarray]:
    """Return the least and largest value of each quantity that count as inside."""
    margin = TOLERANCE * domain.units[:, None] * [-1, 1]
    return dict(zip(domain.names, domain.bounds + margin, strict=True))


@lru_cache(8)
def _difference(system: System, text: str) -> ScalarFunction:
    """Return a function of states that is positive where a comparison holds."""
    where = f"escape = {text!r}"
    found = _COMPARISON.fullmatch(text)
    if found is None:
        raise InputError(f"{where}: expected one comparison, such as 'q**2 + p**2 > 0.1'")
    equations = system.equations
    left, sign, right = found.groups()
    smaller, larger = (left, right) if sign == "<" else (right, left)
    expression = parse(f"({larger}) - ({smaller})", equations.scope, where)
    return ScalarFunction(equations, expression, "escape")
