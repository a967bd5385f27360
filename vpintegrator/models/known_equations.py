"""Learned splittings: maps of known equations."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace

import torch

from vpintegrator.arguments import positive, whole
from vpintegrator.errors import InputError
from vpintegrator.models.components import Components
from vpintegrator.models.model import Model
from vpintegrator.nn.exact_flows import LearnedSplitting, field_parts, hamiltonian_parts
from vpintegrator.nn.formulas import as_expressions
from vpintegrator.nn.layer import default_dtype
from vpintegrator.nn.symmetry import check_even

MOST_STAGES = 64


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
        other.origin = replace(other.origin, step=float(step))
        return other


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
