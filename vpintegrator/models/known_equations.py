"""Maps of known equations: learned splittings, and classical methods with substeps."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch

from vpintegrator.arguments import one_of, positive, whole
from vpintegrator.dynamics.compositions import FACTORS
from vpintegrator.dynamics.expressions.evaluation import ComponentFunction
from vpintegrator.errors import InputError
from vpintegrator.models.components import Components
from vpintegrator.models.model import Model
from vpintegrator.names import EXPLICIT, RUNGE_KUTTA
from vpintegrator.nn.exact_flows import (
    LearnedSplitting,
    RungeKuttaStep,
    Substeps,
    field_parts,
    hamiltonian_parts,
)
from vpintegrator.nn.formulas import StateExpressions, as_expressions, deriving
from vpintegrator.nn.layer import Layer, default_dtype
from vpintegrator.nn.symmetry import check_even

MOST_STAGES = 64
MOST_SUBSTEPS = 1024


class SplittingMap(Model):
    r"""A one-step map of known equations, whose parts have exact flows.

    .. math:: z' = \exp(h w_1 A)\, \exp(h w_2 B)\, \exp(h w_3 A) \cdots z

    Symplectic where the parts are those of a Hamiltonian, volume-preserving where they are shears
    of a vector field, and its own adjoint. The few coefficients are fitted to data of one step;
    they belong to the equations, and hold for smaller steps and for other states as well.

    Parameters
    ----------
    dim
        Components of a state.
    hamiltonian
        Formula ``z[1]**2/2 - cos(z[0])`` of the Hamiltonian.
    field
        Formulas of the rates of all components, where there is no Hamiltonian.
    stages
        How often the last part is passed.
    commutators
        Whether commutators such as ``|grad V|^2`` are further functions of the parts.
    explicit_time
        Whether the last component is the time.
    dtype
        Type of the weights.

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
    reads_equations = True

    @default_dtype(torch.float64)
    def __init__(
        self,
        dim: int,
        *,
        hamiltonian: str = "",
        field: Sequence[str] = (),
        stages: int = 5,
        commutators: bool = False,
        explicit_time: bool = False,
        dtype: str | torch.dtype = "float64",
    ) -> None:
        components = Components(dim, explicit_time=explicit_time)
        rates = _check_equations(dim, hamiltonian, field)
        whole("stages", stages, 1, MOST_STAGES)
        if hamiltonian:
            check_even(components.moving)
            flows = hamiltonian_parts(hamiltonian, components.moving, explicit_time, commutators)
        else:
            flows = field_parts(tuple(rates))
        core = LearnedSplitting(flows, components.moving, stages, explicit_time)
        super().__init__(core, components, dtype=dtype)

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
        other = copy.deepcopy(self)
        other.set_advance(positive("step", step))
        other.metadata["step"] = repr(float(step))
        return other


class ClassicalIntegrator(Model):
    r"""An explicit classical method for known equations, with equal substeps.

    A Runge-Kutta method of :math:`\dot z = f(z)` keeps no structure. A splitting method needs
    equations whose parts have exact flows: it preserves volume, and the form of a Hamiltonian of an
    even number of components. The model has no weights to train; ``set_advance`` sets its step.

    Parameters
    ----------
    dim
        Components of a state.
    hamiltonian
        Formula ``z[1]**2/2 - cos(z[0])`` of the Hamiltonian.
    field
        Formulas of the rates of all components, where there is no Hamiltonian.
    method
        Name of the explicit method.
    substeps
        Equal steps of the method in a step.
    dtype
        Type of the numbers.

    Raises
    ------
    InputError
        Without a Hamiltonian or a vector field, or where a splitting method does not apply.

    Examples
    --------
    >>> pendulum = vp.load_system("pendulum")
    >>> model = vp.models.build(pendulum, "classical", {"method": "blanes-moan-4", "substeps": 2})
    >>> model.set_advance(0.1)
    >>> model.structure.is_symplectic, model(torch.ones(1, 2, dtype=torch.float64)).shape
    (True, torch.Size([1, 2]))
    """

    name = "classical"
    reads_equations = True

    @default_dtype(torch.float64)
    def __init__(
        self,
        dim: int,
        *,
        hamiltonian: str = "",
        field: Sequence[str] = (),
        method: str = "rk4",
        substeps: int = 1,
        dtype: str | torch.dtype = "float64",
    ) -> None:
        rates = _check_equations(dim, hamiltonian, field)
        one_of("method", method, EXPLICIT)
        whole("substeps", substeps, 1, MOST_SUBSTEPS)
        if method in RUNGE_KUTTA:
            from vpintegrator.dynamics.tableaus import TABLEAUS  # loads scipy.integrate: slow

            layer: Layer = RungeKuttaStep(_rates(hamiltonian, rates, dim), dim, *TABLEAUS[method])
        else:
            layer = _splitting(method, hamiltonian, rates, dim)
        super().__init__(Substeps(layer, substeps), dim, dtype=dtype)


def _rates(hamiltonian: str, field: list[str], dim: int) -> ComponentFunction:
    """Return the vector field; a last component of an odd number is the time."""
    if not hamiltonian:
        parsed = StateExpressions({f"field[{i}]": text for i, text in enumerate(field)}, dim)
        return parsed.function(parsed.values)
    parsed, n = StateExpressions({"hamiltonian": hamiltonian}, dim), dim // 2
    with deriving("the Hamiltonian cannot be differentiated"):
        slopes = parsed.gradient(parsed.values[0])
    kicks = [parsed.algebra.scale(-1, slopes.get(i, 0)) for i in range(n)]
    drifts = [slopes.get(n + i, 0) for i in range(n)]
    return parsed.function([*drifts, *kicks, *[1] * (dim % 2)])


def _splitting(method: str, hamiltonian: str, field: list[str], dim: int) -> Layer:
    """Return the composition of exact flows with the coefficients of the method."""
    odd = dim % 2  # the last component is the time
    if hamiltonian:
        flows = hamiltonian_parts(hamiltonian, dim - odd, bool(odd), False)
    else:
        flows = field_parts(tuple(field))
    layer = LearnedSplitting(flows, dim, len(FACTORS[method]) // 2)
    layer.begin_as(FACTORS[method])
    for name in ("weights", "commutators"):  # given, and no parameters
        layer.register_buffer(name, layer._parameters.pop(name).detach())  # type: ignore[union-attr]
    layer.symplectic = bool(hamiltonian) and not odd
    return layer


def _check_equations(dim: int, hamiltonian: str, field: Sequence[str]) -> list[str]:
    """Return the formulas of the rates, if these or a Hamiltonian are the known equations.

    Raises
    ------
    InputError
        If both or none is given, or there are not as many rates as components.
    """
    rates = as_expressions(field, "field", dim)
    if bool(hamiltonian) == bool(rates):
        raise InputError("known equations are either a hamiltonian or a field, as formulas")
    if rates and len(rates) != dim:
        raise InputError(f"field must give the rates of all {dim} components, not {len(rates)}")
    return rates
