"""A learned splitting: known equations stepped by exact flows of their parts."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from torch import nn

from vpintegrator.arguments import positive, whole
from vpintegrator.errors import InputError
from vpintegrator.models.arguments import IntegratorArguments, argument
from vpintegrator.models.base import Integrator
from vpintegrator.nn.canonical import check_even
from vpintegrator.nn.exact_flows import ExactFlows, field_parts, hamiltonian_parts
from vpintegrator.nn.formulas import as_expressions
from vpintegrator.nn.learned_splitting import LearnedSplitting

MOST_STAGES = 64


@dataclass(frozen=True, kw_only=True)
class EquationArguments(IntegratorArguments):
    """Arguments of models that are made of known equations."""

    one_step = True
    hamiltonian: str = argument(
        "", "Formula ``z[1]**2/2 - cos(z[0])`` of the Hamiltonian.", omitted=True
    )
    field: Any = argument(
        (),
        "Formulas of the rates of all components, where there is no Hamiltonian.",
        kind="sequence of str",
        omitted=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.hamiltonian, str):
            raise InputError(f"hamiltonian must be a text, not {self.hamiltonian!r}")
        self._set("field", as_expressions(self.field, "field", self.dim))
        if bool(self.hamiltonian) == bool(self.field):
            raise InputError("known equations are either a hamiltonian or a field, as formulas")
        if self.field and len(self.field) != self.dim:
            raise InputError(
                f"field must give the rates of all {self.dim} components, not {len(self.field)}"
            )


class SplittingMap(Integrator):
    r"""A one-step map of known equations, whose parts have exact flows.

    .. math:: z' = \exp(h w_1 A)\, \exp(h w_2 B)\, \exp(h w_3 A) \cdots z

    Symplectic where the parts are those of a Hamiltonian, volume-preserving where they are shears
    of a vector field, and its own adjoint. The few coefficients are fitted to data of one step;
    they belong to the equations, and hold for smaller steps and for other states as well.

    Raises
    ------
    InputError
        Without a Hamiltonian or a vector field, or where these are no sums of parts with exact
        flows.

    References
    ----------
    Blanes, Casas, Murua, Splitting methods for differential equations, Acta Numerica 33 (2024) 1.

    Examples
    --------
    >>> model = vp.models.SplittingMap(dim=2, hamiltonian="z[1]**2/2 - cos(z[0])", stages=3)
    >>> model.structure.is_symplectic, sum(p.numel() for p in model.parameters())
    (True, 4)
    """

    name = "split"

    @dataclass(frozen=True, kw_only=True)
    class Arguments(EquationArguments):
        """See the class."""

        stages: int = argument(5, "How often the last part is passed.", least=1)
        linear: bool = argument(
            False, "Whether the quadratic terms of the Hamiltonian are one part, a linear flow."
        )
        commutators: bool = argument(
            False, "Whether commutators such as ``|grad V|^2`` are further functions of the parts."
        )
        explicit_time: bool = argument(False, "Whether the last component is the time.")

        def __post_init__(self) -> None:
            super().__post_init__()
            whole("stages", self.stages, 1, MOST_STAGES)
            if self.hamiltonian:
                check_even(self.dim - self.explicit_time)
            if self.field and self.linear:
                raise InputError("linear is for the quadratic terms of a hamiltonian")

        @property
        def flows(self) -> ExactFlows:
            """The parts."""
            if self.field:
                return field_parts(tuple(self.field))
            size = self.dim - self.explicit_time
            given = (self.hamiltonian, size, self.linear, self.explicit_time, self.commutators)
            return hamiltonian_parts(*given)

    def network(self, a: Arguments) -> nn.Module:
        """Return the composition."""
        layer = LearnedSplitting(a.flows, a.dim, a.stages, a.explicit_time)
        self.description = (
            f"learned splitting of {len(a.flows.parts)} parts with exact flows, {a.stages} stages"
        )
        return layer

    def set_advance(self, time: float) -> None:
        """Set the step, in units of time."""
        super().set_advance(time)
        self.core.set_step(time)  # type: ignore[operator]

    def with_step(self, step: float) -> SplittingMap:
        """Return the splitting with another step.

        The error is that of the training step at most for smaller ones; it falls as their cube.

        Parameters
        ----------
        step
            Step in units of time.

        Raises
        ------
        InputError
            If it is no positive number.

        Examples
        --------
        >>> model = vp.models.SplittingMap(dim=2, hamiltonian="z[1]**2/2 - cos(z[0])")
        >>> model.with_step(0.05).core.step.item()
        0.05
        """
        found = copy.deepcopy(self)
        found.set_advance(positive("step", step))
        found.metadata["step"] = repr(float(step))
        return found
