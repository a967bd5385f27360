"""The equations of a system as formulas, and the section of a return map."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from vpintegrator.dynamics.expressions import Algebra, Expression, Number, Scope, Symbol, Value
from vpintegrator.errors import InputError

Stage = Mapping[int, Value]  # new values by the number of the component


@dataclass(frozen=True)
class Equations:
    """A system in formulas; its parameters are numbers in them, exact or of 120 digits.

    Parameters that are left open are symbols, and arrays when the formulas are computed.

    Attributes
    ----------
    components
        Names of the state's components in order, ``z1`` or ``q[0]``.
    symbols
        Symbols of the components (``q_0`` for ``q[0]``).
    arrays
        Indices of each array's components, for a state of arrays.
    vector_field
        Right-hand sides of z' = f(z), in the order of the components; none where the file says
        ``measured = true``, and for maps.
    hamiltonian
        H(q, p), or H(q, p, t), where the system was given by one, else None.
    invariants
        Functions constant along every solution, by name.
    reversing_symmetries
        Linear involutions rho with f(rho z) = -rho f(z): rows of the matrices, each with its
        entries that are not zero by their columns.
    periods
        Periods of the components that are angles, by the number of the component.
    divergence_free
        Declaration of the file, or None without one.
    scope
        Meaning of the names, and the algebra of the formulas.
    source, table, definitions
        Name and tables of the file, and the parameters as written.
    explicit_time
        Number of the component that is the time, the last; None where nothing depends on time.
    stages
        Stages of a map, applied one after the other: new values of the components that each stage
        changes, by number.
    iterations
        Number of times that all stages are applied in one step.
    symplectic
        Declaration of the file for a map, or None without one.
    rounded
        Whether constants are rounded to doubles, so that checks allow for rounding.
    returns
        Section of a return map, which has no formulas of its own.
    open
        Symbols of the parameters that are left open.
    order
        Numbers of all positions, then of their momenta; empty where the state has this order, or
        has neither.
    """

    components: tuple[str, ...]
    symbols: tuple[Symbol, ...]
    arrays: dict[str, tuple[int, ...]]
    vector_field: tuple[Value, ...]
    hamiltonian: Value | None
    invariants: dict[str, Value]
    reversing_symmetries: tuple[tuple[dict[int, Number], ...], ...]
    periods: dict[int, Number]
    divergence_free: bool | None
    scope: Scope = field(repr=False)
    source: str = field(repr=False)
    table: Mapping[str, Any] = field(repr=False)
    definitions: Mapping[str, Any] = field(repr=False)
    explicit_time: int | None = None
    stages: tuple[Stage, ...] = ()
    iterations: int = 1
    symplectic: bool | None = None
    rounded: bool = False
    returns: ReturnSection | None = None
    open: tuple[Symbol, ...] = ()
    order: tuple[int, ...] = ()

    @property
    def halves(self) -> tuple[list[int], list[int]]:
        """Numbers of the positions, and of their momenta in the same order.

        Of systems without a canonical form they are the two halves of the state, without the time.
        """
        half = (len(self.symbols) - (self.explicit_time is not None)) // 2
        order = list(self.order or range(2 * half))
        return order[:half], order[half : 2 * half]

    @property
    def is_map(self) -> bool:
        """Whether they are of a map."""
        return bool(self.stages) or self.returns is not None

    @property
    def arguments(self) -> tuple[Symbol, ...]:
        """Symbols of the state, and then those of the open parameters."""
        return (*self.symbols, *self.open)

    @property
    def algebra(self) -> Algebra:
        """Algebra that builds the formulas."""
        return self.scope.algebra

    @cached_property
    def own_slopes(self) -> tuple[Value, ...]:
        """df_i/dz_i for every component, whose sum is the divergence."""
        return tuple(self.jacobian.get((i, i), 0) for i in range(len(self.vector_field)))

    @cached_property
    def divergence(self) -> Value:
        """Sum of df_i/dz_i."""
        return self.algebra.add(*self.own_slopes)

    @cached_property
    def jacobian(self) -> dict[tuple[int, int], Value]:
        """The entries df_i/dz_j that are not identically zero."""
        return self._slopes(dict(enumerate(self.vector_field)))

    @cached_property
    def stage_slopes(self) -> tuple[dict[tuple[int, int], Value], ...]:
        """Nonzero derivatives of each stage of a map, by (row, column)."""
        return tuple(map(self._slopes, self.stages))

    def _slopes(self, values: Stage) -> dict[tuple[int, int], Value]:
        index = {symbol: j for j, symbol in enumerate(self.symbols)}
        self.algebra.allow_derivatives()
        return {
            (i, index[symbol]): slope
            for i, value in values.items()
            for symbol, slope in self.algebra.gradient(value).items()
            if symbol in index  # and no parameter that is left open
        }


@dataclass(frozen=True)
class ReturnSection:
    """Section of a return map, in formulas of the flow's symbols.

    Attributes
    ----------
    flow
        The equations of the flow.
    component
        Number of the fixed component; for a stroboscopic map, of the time.
    value
        Value of the fixed component on the section.
    sign
        1 for crossings upwards, -1 downwards.
    crossings
        Number of crossings in one step.
    energy
        Energy on the section of a Hamiltonian flow without explicit time, else None.
    return_times
        Whether the time since the start is a further component.
    where
        The file and the table, for messages.
    period
        Period of the equations in time, for a stroboscopic map.
    """

    flow: Equations
    component: int
    value: Value
    sign: int
    crossings: int
    energy: Value | None
    return_times: bool
    where: str
    period: Value | None = None

    @property
    def stroboscopic(self) -> bool:
        """Whether the section is a phase of the time."""
        return self.component == self.flow.explicit_time

    @property
    def conjugate(self) -> int | None:
        """Number of the momentum that follows from the energy."""
        if self.energy is None:
            return None
        positions, momenta = self.flow.halves
        return momenta[positions.index(self.component)]

    @property
    def kept(self) -> list[int]:
        """Numbers of the flow's components that are states of the map."""
        left = (self.component, self.conjugate)
        return [i for i in range(len(self.flow.symbols)) if i not in left]

    @property
    def dim(self) -> int:
        """Number of components of the map's states."""
        return len(self.kept) + self.return_times

    @property
    def is_canonical(self) -> bool:
        """Whether the states are (q, p) of a Hamiltonian flow."""
        return self.flow.hamiltonian is not None and not self.return_times

    @cached_property
    def parabola(self) -> tuple[Value, Value, Value] | None:
        """a, b and c of H - energy = a p**2/2 + b p + c, p the momentum that follows."""
        if self.conjugate is None:
            return None
        e, algebra = self.flow, self.flow.algebra
        p, hamiltonian = e.symbols[self.conjugate], e.hamiltonian
        assert hamiltonian is not None and self.energy is not None
        algebra.allow_derivatives()
        slope = algebra.gradient(hamiltonian).get(p, 0)
        curvature = algebra.gradient(slope).get(p, 0)
        if curvature == 0 or (isinstance(curvature, Expression) and curvature.depends & p.depends):
            raise InputError(
                f"{self.where}: {e.components[self.conjugate]} follows from the energy only where "
                f"the Hamiltonian is quadratic in it; choose the section of another position"
            )
        fixed = {e.symbols[self.component]: self.value, p: 0}
        a, b, c = algebra.substitute([curvature, slope, hamiltonian], fixed)
        return a, b, algebra.subtract(c, self.energy)

    @cached_property
    def momentum(self) -> Value | None:
        """The momentum that follows, as a formula."""
        if self.parabola is None:
            return None
        (a, b, c), algebra = self.parabola, self.flow.algebra
        square = algebra.subtract(algebra.multiply(b, b), algebra.multiply(2, a, c))
        root = algebra.call("sqrt", square)
        return algebra.divide(algebra.subtract(algebra.scale(self.sign, root), b), a)

    @property
    def plane(self) -> str:
        """The section as it is written."""
        value = self.value
        text = "..." if isinstance(value, Expression) else f"{float(value):g}"
        return f"{self.flow.components[self.component]} = {text}"

    @property
    def words(self) -> str:
        """The section and its coordinates, in a sentence."""
        e = self.flow
        names = ", ".join(e.components[i] for i in self.kept)
        if self.stroboscopic:
            times = "" if self.crossings == 1 else f"{self.crossings} "
            what = f"over {times}period{'s' if times else ''} from {self.plane}"
        else:
            often = "" if self.crossings == 1 else f", every {self.crossings}th crossing"
            way = "upwards" if self.sign > 0 else "downwards"
            what = f"from crossing to crossing of {self.plane} {way}"
            what += often
        kind = "canonical coordinates" if e.hamiltonian is not None else "coordinates"
        form = ""
        if e.hamiltonian is not None:
            kept = "area" if len(self.kept) == 2 else "the form dq dp"
            form = f", in which {kept} is kept"
        further = "; and the time since the start" if self.return_times else ""
        return f"{what}; {kind} ({names}){form}{further}"
