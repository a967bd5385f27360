"""Maps with their derivatives by parameters and states, state by state."""

from __future__ import annotations

from typing import Any

import torch

from vpintegrator.nn.composition import Composition
from vpintegrator.nn.implicit import jacobians
from vpintegrator.nn.reversible import Reversible, psi_of
from vpintegrator.nn.shears import LinearShear, is_prolongable


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


def explicit_shears(core: Any) -> list[LinearShear] | None:
    """Return the shears of a map, or of psi of a reversible one, if it is made of nothing else.

    Parameters
    ----------
    core
        Core of a model.

    Returns
    -------
    list of LinearShear or None
        None where a layer is another, or offers no derivatives of its shears.
    """
    psi = psi_of(core)
    layers: list[Any] = list(psi) if isinstance(psi, Composition) else [psi]
    if not all(is_prolongable(layer) and hasattr(layer, "shears") for layer in layers):
        return None
    found = [shear for layer in layers for shear in layer.shears()]
    plain = all(each.jet is not None and each.rotation is None for each in found)
    return found if plain else None


@torch.no_grad()
def linearised_shears(core: Any, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return images of an explicit map and their derivatives by the parameters.

    The derivatives are accumulated shear by shear, without automatic differentiation.

    Parameters
    ----------
    core
        Core of a model for which ``explicit_shears`` gives shears.
    z : (state, dim)
        Normalised.

    Returns
    -------
    images : (state, dim)
    derivatives : (state, dim, parameter)
        In the order of the parameters of the core.
    """
    shears = explicit_shears(core)
    assert shears is not None
    begins, total = {}, 0
    for parameter in core.parameters():
        begins[parameter], total = total, total + parameter.numel()
    D = z.new_zeros(*z.shape, total)

    def apply(shear: LinearShear, sign: int) -> None:
        nonlocal z
        assert shear.jet is not None
        by_parameters, by_states = shear.jet(z)
        change = by_states @ D
        ((parameter,),) = shear.groups
        begin, own = begins[parameter], range(*shear.share.indices(parameter.numel()))
        change[:, :, begin + own.start : begin + own.stop] += by_parameters
        D[:, shear.components] += sign * change
        z = z.clone()
        z[:, shear.components] += sign * (by_parameters @ parameter.flatten()[shear.share])

    if isinstance(core, Reversible):
        rho = core.reflection.symmetry.to(z)
        z = z @ rho.mT
        for shear in reversed(shears):
            apply(shear, -1)
        z, D = z @ rho.mT, rho @ D
    for shear in shears:
        apply(shear, 1)
    return z, D
