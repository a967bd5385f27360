"""States at which formulas have values, and why they have none at others."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from vpintegrator.dynamics.equations import Equations
from vpintegrator.dynamics.expressions import (
    Call,
    ComponentFunction,
    Product,
    Symbol,
    Value,
    arithmetic,
    below,
    can_be_written,
    evaluator,
    written,
)

_NAMED = 4  # components in a message


class FormulaDomain:
    """Domain of formulas: the states at which all of them are finite.

    Parameters
    ----------
    equations
        Equations, perhaps with open parameters.
    formulas
        Formulas of their symbols.
    """

    def __init__(self, equations: Equations, formulas: Sequence[Value]) -> None:
        self.equations, self.formulas = equations, list(formulas)

    @classmethod
    def of_motion(cls, equations: Equations) -> FormulaDomain:
        """Return the domain of the vector field and the Hamiltonian, or of the first stage."""
        first = list(equations.stages[0].values()) if equations.stages else []
        energy = [] if equations.hamiltonian is None else [equations.hamiltonian]
        return cls(equations, [*energy, *equations.vector_field, *first])

    @cached_property
    def _function(self) -> ComponentFunction:
        # not compiled: it is called once
        return evaluator(self.formulas, self.equations.arguments, arithmetic("numpy"))

    def outside(self, states: np.ndarray, parameters: np.ndarray | None = None) -> np.ndarray:
        """Return whether states (state, dim) are outside, of values of parameters (state, name)."""
        columns = [*states.T, *(() if parameters is None else parameters.T)]
        found = np.zeros(len(states), bool)
        with np.errstate(all="ignore"):
            for value in self._function(*columns):
                found |= ~np.isfinite(value)
        return found

    def reason(self, state: np.ndarray, parameters: np.ndarray | None = None) -> str:
        """Return the reason why a state (dim,) is outside: ``q = -1 is outside of log(q)``."""
        e, numbers = self.equations, [*state, *(() if parameters is None else parameters)]
        for formula in self.formulas:
            nodes = below([formula])
            parts: dict[Any, Any] = dict(zip(e.arguments, map(np.float64, numbers), strict=True))
            with np.errstate(all="ignore"):
                values = evaluator(nodes, e.arguments, arithmetic("numpy"))(*parts.values())
            parts |= zip(nodes, values, strict=True)
            for node in nodes:
                if not np.isfinite(parts[node]) and all(np.isfinite(parts[p]) for p in node.parts):
                    return self._words(node, parts)
        return "a formula is not finite"

    def _words(self, node: Any, values: dict[Any, Any]) -> str:
        e = self.equations
        names = {symbol: symbol.name for symbol in e.arguments}
        names |= dict(zip(e.symbols, e.components, strict=True))
        used = [symbol for symbol in below([node]) if isinstance(symbol, Symbol)]
        told = ", ".join(f"{names[s]} = {values[s]:.6g}" for s in used[:_NAMED])
        told += ", ..." if len(used) > _NAMED else ""
        text = node.function.name if isinstance(node, Call) else "a power"
        if can_be_written(node):
            text = written(node, names)
            if isinstance(node, Product) and [abs(c) for _, c in node.factors] == [Fraction(1, 2)]:
                base = written(node.parts[0], names)
                text = f"sqrt{base}" if base.startswith("(") else f"sqrt({base})"
        return f"{told} is outside of the domain of {text}"
