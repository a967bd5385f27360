"""Implicit maps with their derivatives by coefficients and states, state by state."""

from __future__ import annotations

from typing import Any

import torch

from vpintegrator.nn.implicit import jacobians
from vpintegrator.nn.reversible import Reversible


@torch.no_grad()
def linearised(
    core: Any, z: torch.Tensor, coefficients: bool = True
) -> tuple[torch.Tensor, torch.Tensor]:
    r"""Return images and their derivatives by coefficients and states.

    A map :math:`F(z, Z; c) = 0` changes by :math:`dZ = -F_Z^{-1} (F_c\, dc + F_z\, dz)`; the
    derivatives of several in a row follow by the chain rule.

    Parameters
    ----------
    core
        An ``ImplicitMap``, or a ``Reversible`` one of it.
    z : (state, dim)
        Normalised.
    coefficients
        Whether derivatives by the coefficients are asked for.

    Returns
    -------
    images : (state, dim)
    derivatives : (state, dim, coefficient + dim)
        The first ones only where they are asked for.
    """
    reversible = isinstance(core, Reversible)
    layer = core.psi if reversible else core
    c, n = tuple(each.detach() for each in layer.coefficients()), z.shape[1]
    one, rho = torch.eye(n, dtype=z.dtype), torch.empty(0)
    count = sum(each.numel() for each in c) if coefficients else 0
    D = torch.cat([z.new_zeros(n, count), one], 1).expand(len(z), n, count + n)
    backward = [False] * layer.repeats
    if reversible:
        rho = core.reflection.symmetry.to(z)
        backward = [True] * layer.repeats + backward
    for k, back in enumerate(backward):
        if reversible and k % layer.repeats == 0:
            z, D = z @ rho.mT, rho @ D
        outer = layer.outer(one, back).mT
        given = layer.outer(z, back)
        found = layer.solve(given, c, back)
        old, new = (found, given) if back else (given, found)
        by_old, by_new = jacobians(lambda a, b: layer.residual(a, b, c), old, new)
        matrix = z.new_zeros(len(z), n, count + n)
        if coefficients:
            rows = layer.equations(old, new)[0]
            matrix[:, : rows.shape[1], :count] = rows
        by_given, by_found = (by_new, by_old) if back else (by_old, by_new)
        D = outer @ torch.linalg.solve(by_found, matrix - by_given @ (outer @ D))
        z = layer.outer(found, back)
    return z, D
