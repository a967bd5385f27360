"""An explicit classical method with substeps as a model."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from vpintegrator.arguments import whole
from vpintegrator.dynamics.compositions import FACTORS
from vpintegrator.dynamics.expressions import ComponentFunction
from vpintegrator.models.arguments import argument
from vpintegrator.models.base import Integrator
from vpintegrator.models.splitting_map import EquationArguments
from vpintegrator.names import EXPLICIT, RUNGE_KUTTA
from vpintegrator.nn.classical_steps import RungeKuttaStep, Substeps
from vpintegrator.nn.exact_flows import field_parts, hamiltonian_parts
from vpintegrator.nn.formulas import StateExpressions, deriving
from vpintegrator.nn.layer import Layer
from vpintegrator.nn.learned_splitting import LearnedSplitting

MOST_SUBSTEPS = 1024


class ClassicalIntegrator(Integrator):
    r"""An explicit classical method for known equations, with equal substeps.

    A Runge-Kutta method of :math:`\dot z = f(z)` keeps no structure. A splitting method needs
    equations whose parts have exact flows: it preserves volume, and the form of a Hamiltonian of an
    even number of components. The model has no weights to train; ``set_advance`` sets its step.

    Raises
    ------
    InputError
        Without a Hamiltonian or a vector field, or where a splitting method does not apply.

    Examples
    --------
    >>> pendulum = vp.load_system("pendulum")
    >>> model = vp.models.build(pendulum, "classical", method="blanes-moan-4", substeps=2)
    >>> model.set_advance(0.1)
    >>> model.structure.is_symplectic, model(torch.ones(1, 2, dtype=torch.float64)).shape
    (True, torch.Size([1, 2]))
    """

    name = "classical"

    @dataclass(frozen=True, kw_only=True)
    class Arguments(EquationArguments):
        """See the class."""

        method: str = argument("rk4", "Name of the explicit method.", choices=EXPLICIT)
        substeps: int = argument(1, "Equal steps of the method in a step.", least=1)

        def __post_init__(self) -> None:
            super().__post_init__()
            whole("substeps", self.substeps, 1, MOST_SUBSTEPS)

        @property
        def rates(self) -> ComponentFunction:
            """The vector field; a last component of an odd number is the time."""
            texts = {"hamiltonian": self.hamiltonian} if self.hamiltonian else {}
            texts = texts or {f"field[{i}]": text for i, text in enumerate(self.field)}
            parsed, n = StateExpressions(texts, self.dim), self.dim // 2
            if not self.hamiltonian:
                return parsed.function(parsed.values)
            with deriving("the Hamiltonian cannot be differentiated"):
                slopes = parsed.gradient(parsed.values[0])
            kicks = [parsed.algebra.scale(-1, slopes.get(i, 0)) for i in range(n)]
            drifts = [slopes.get(n + i, 0) for i in range(n)]
            return parsed.function([*drifts, *kicks, *[1] * (self.dim % 2)])

    def network(self, a: Arguments) -> nn.Module:
        """Return the substeps."""
        self.description = f"{a.method}, {a.substeps} substeps" if a.substeps > 1 else a.method
        if a.method not in RUNGE_KUTTA:
            return Substeps(_splitting(a), a.substeps)
        from vpintegrator.dynamics.tableaus import TABLEAUS  # loads scipy.integrate, which is slow

        return Substeps(RungeKuttaStep(a.rates, a.dim, *TABLEAUS[a.method]), a.substeps)

    def set_advance(self, time: float) -> None:
        """Set the step, in units of time."""
        super().set_advance(time)
        self.core.set_step(time)  # type: ignore[operator]


def _splitting(a: ClassicalIntegrator.Arguments) -> Layer:
    """Return the composition of exact flows with the coefficients of the method."""
    if a.hamiltonian:
        even = a.dim % 2 == 0
        flows = hamiltonian_parts(a.hamiltonian, a.dim - (not even), False, not even, False)
    else:
        even, flows = False, field_parts(tuple(a.field))
    layer = LearnedSplitting(flows, a.dim, len(FACTORS[a.method]) // 2)
    layer.begin_as(FACTORS[a.method])
    for name in ("weights", "commutators"):  # given, and no parameters
        layer.register_buffer(name, layer._parameters.pop(name).detach())  # type: ignore[union-attr]
    layer.symplectic = even
    return layer
