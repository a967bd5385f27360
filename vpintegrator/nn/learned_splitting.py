"""Palindromic compositions of exact flows with coefficients that are learned."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from vpintegrator.arguments import whole
from vpintegrator.errors import InputError
from vpintegrator.nn.exact_flows import ExactFlows, ExactShear
from vpintegrator.nn.layer import Device, Dtype, InvertibleLayer, on_cpu
from vpintegrator.nn.parameters import joined
from vpintegrator.nn.units import InUnits


class LearnedSplitting(InvertibleLayer, InUnits):
    r"""A palindromic composition of exact flows of the parts of known equations.

    .. math:: \Phi_h = \exp(h A_1)\, \exp(h A_2) \cdots \exp(h A_2)\, \exp(h A_1), \qquad
        A_j = w_j f_{k_j} + h^2 \sum_m c_{jm}\, g_{k_j m}

    The parts f follow one another to and fro, once for each stage. Functions g of the same part are
    its commutators. The weights w of each part add up to one, so that the map is of order two at
    least and follows the equations for every small step. It is its own adjoint, and reversible
    under every reversing symmetry of all parts.

    Parameters
    ----------
    flows : ExactFlows
        The parts.
    dim : int
        Components of a state, without the time.
    stages : int
        Times that the last part is passed.
    explicit_time : bool
        Whether the flows depend on the time: a parameter, given for the middle of the step.
    device, dtype
        As in layers of torch.nn.

    Attributes
    ----------
    weights : Parameter (flow,)
        Weights of the flows in the first half of the composition, before normalisation of their sum
        to one.
    commutators : Parameter (flow and function,)
        The coefficients c times the square of the stages.
    step : Tensor (1,)
        The step h, in units of time.

    References
    ----------
    Blanes, Casas, Murua, Splitting methods for differential equations, Acta Numerica 33 (2024) 1;
    Omelyan, Mryglod, Folk, Phys. Rev. E 66 (2002) 026701 for commutators.

    Examples
    --------
    >>> from vpintegrator.nn.exact_flows import hamiltonian_parts
    >>> flows = hamiltonian_parts("z[1]**2/2 - cos(z[0])", 2)
    >>> layer = vp.nn.LearnedSplitting(flows, 2, stages=3)
    >>> layer.set_step(0.1)
    >>> z = torch.rand(2)
    >>> bool(torch.allclose(layer.inverse(layer(z)), z, atol=1e-15))
    True
    """

    shown = ("dim", "stages")
    step: torch.Tensor

    @on_cpu
    def __init__(
        self,
        flows: ExactFlows,
        dim: int,
        stages: int = 3,
        explicit_time: bool = False,
        *,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(device=device, dtype=dtype)
        self.flows, self.dim, self.parameter_count = flows, dim, int(explicit_time)
        self.stages = whole("stages", stages, 1)
        self.symplectic = flows.symplectic
        last = len(flows.parts) - 1
        sweep = [*range(last + 1), *range(last - 1, -1, -1)]
        self.sequence = sweep + sweep[1:] * (self.stages - 1)
        weights = [  # equal steps of Strang's splitting
            (1.0 if k == last or (k == 0 and n > 0) else 0.5) / self.stages
            for n, k in enumerate(self.sequence[: self._half])
        ]
        self.weights = nn.Parameter(torch.tensor(weights, **self.factory_kwargs))
        further = [flows.parts[k].functions - 1 for k in self.sequence[: self._half]]
        self.commutators = nn.Parameter(torch.zeros(sum(further), **self.factory_kwargs))
        self.first = [sum(further[:n]) for n in range(self._half)]
        self.register_buffer("step", torch.ones(1, **self.factory_kwargs))
        self.add_units(dim + self.parameter_count)

    @property
    def _half(self) -> int:
        """Number of flows up to the middle one."""
        return len(self.sequence) // 2 + 1

    def begin_as(self, factors: Sequence[float]) -> None:
        """Take the weights of a symmetric composition, without commutators.

        Parameters
        ----------
        factors
            Fractions of the step that the parts are followed in turn and then in reverse order,
            two for each stage, as in ``vpintegrator.dynamics.compositions``.

        Raises
        ------
        InputError
            If there are not two for each stage, or they are not symmetric.
        """
        own = tuple(factors)
        if len(own) != 2 * self.stages or not np.allclose(own, own[::-1], rtol=0, atol=1e-12):
            raise InputError(
                f"a splitting of {self.stages} stages begins as a symmetric composition of "
                f"{2 * self.stages} factors, not of {list(own)}"
            )
        last = max(self.sequence)
        weights, sweep = [], 0
        for n, k in enumerate(self.sequence[: self._half]):
            weights.append(own[sweep])
            if k == last or (k == 0 and n > 0):  # also the first of the sweep that turns here
                sweep += 1
                weights[-1] += own[sweep]
        with torch.no_grad():
            self.weights.copy_(torch.tensor(weights, dtype=torch.float64))
            self.commutators.zero_()

    def set_step(self, step: float) -> None:
        """Set the step h, in units of time."""
        self.step.fill_(step)

    def normalised_weights(self) -> list[torch.Tensor]:
        """Return the weights of all flows, which add up to one for each part."""
        own = [self.weights[min(n, len(self.sequence) - 1 - n)] for n in range(len(self.sequence))]
        missing, counts = {}, {}
        for part in set(self.sequence):
            places = [n for n, k in enumerate(self.sequence) if k == part]
            counts[part] = len(places)
            missing[part] = (1 - sum(own[n] for n in places)) / counts[part]
        return [w + missing[k] for w, k in zip(own, self.sequence, strict=True)]

    def transform(
        self, z: torch.Tensor, sign: int, parameters: torch.Tensor | None = None
    ) -> torch.Tensor:
        x = list(self.physical(joined(z, parameters)).unbind(-1))  # (...) each
        h = sign * self.step[0]
        if self.parameter_count:
            x[-1] = x[-1] - 0.5 * h
        total: list[torch.Tensor | float] = [0.0] * len(x)
        for n, (k, weight) in enumerate(zip(self.sequence, self.normalised_weights(), strict=True)):
            for i, change in self._sheared(self.flows.parts[k], x, n, weight, h).items():
                x[i], total[i] = x[i] + change, total[i] + change
        moved = [
            t if isinstance(t, torch.Tensor) else torch.zeros_like(z[..., 0])
            for t in total[: self.dim]
        ]
        changes_of_states = torch.stack([m.expand_as(z[..., 0]) for m in moved], -1)
        return z + changes_of_states / self.state_scale[: self.dim]  # (..., dim)

    def _sheared(
        self, part: ExactShear, x: list[torch.Tensor], n: int, weight: torch.Tensor, h: torch.Tensor
    ) -> dict[int, torch.Tensor]:
        """Return changes of the components that a shear moves."""
        first = self.first[min(n, len(self.sequence) - 1 - n)]
        c = self.commutators[first : first + part.functions - 1] * (h**3 / self.stages**2)
        factors = [weight * h, *c.unbind()]
        rates, count = part.rates(*x), len(part.moved)  # (...) each
        changes: dict[int, torch.Tensor] = {}
        for k, factor in enumerate(factors):
            for i, rate in zip(part.moved, rates[count * k :], strict=False):
                if isinstance(rate, torch.Tensor) or rate != 0:
                    change = factor * rate
                    changes[i] = changes[i] + change if i in changes else change
        return changes
