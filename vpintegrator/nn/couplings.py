"""Additive couplings: some components move by a function of the others."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from vpintegrator.arguments import whole
from vpintegrator.errors import InputError
from vpintegrator.nn.layer import (
    Activation,
    Device,
    Dtype,
    InvertibleLayer,
    as_activation,
    factors_at_zero,
    factory_like,
    joined,
    neurons_at,
    on_cpu,
)
from vpintegrator.nn.split import Blocks, as_blocks, check_compatible, others, placement
from vpintegrator.nn.symmetry import generated_group, is_diagonal


class AdditiveCoupling(InvertibleLayer):
    r"""A sweep of additive couplings with one hidden layer each, applied to every state.

    For each block a of components in turn, with b the components not in a and the activation
    :math:`\sigma`:

    .. math:: z_a \mapsto z_a + A_a\, \sigma(W_a z_b + b_a)

    Each step is a shear: its Jacobian is unit triangular, so the volume is kept exactly whatever
    the function, and the inverse takes the steps backwards with the sign turned.

    Parameters
    ----------
    dim : int
        Components of a state, at least 2. The layer acts on the last axis of (..., dim).
    width : int
        Hidden units per block.
    split : "coordinates", "halves" or blocks of indices
        Blocks in the order of the sweep; "halves" for (q, p).
    parameters : int
        Number m of parameters, which every function reads.
    vanishing : sequence of int
        Parameters at zero of which nothing moves: the value of each function there is subtracted.
    symmetries : sequence of (dim + m, dim + m), optional
        The layer commutes with the group they generate, which acts on states and parameters: with
        :math:`g_a` the function above it adds the mean over S of
        :math:`S_{aa}^{-1} g_a(S_{bb} z_b)`. The group costs no loop: it is folded into a hidden
        layer that is wider by the number of its elements.
    activation : str or callable
    initial_scale : float
        Size of the initial :math:`A_a`; small, for a start near the identity. :math:`W_a` and
        :math:`b_a` start at full scale, so that the hidden units differ from the first step on.
    device, dtype
        As in layers of torch.nn.

    Raises
    ------
    InputError
        If the symmetries mix blocks of the split.

    References
    ----------
    Dinh, Krueger, Bengio, NICE, arXiv 1410.8516, section 3.2; as approximators of volume-preserving
    flows: Zhu, Zhang, Jin, Tang, VPNets, arXiv 2204.13843.

    Examples
    --------
    >>> layer = vp.nn.AdditiveCoupling(dim=3, width=8)
    >>> z = torch.rand(5, 3)
    >>> bool(torch.allclose(layer.inverse(layer(z)), z))
    True
    """

    shown = ("dim", "width", "blocks")
    place: torch.Tensor
    mask: torch.Tensor
    group: torch.Tensor | None
    base: torch.Tensor | None
    back: torch.Tensor

    @on_cpu
    def __init__(
        self,
        dim: int,
        width: int = 16,
        *,
        split: Blocks = "coordinates",
        parameters: int = 0,
        vanishing: Sequence[int] = (),
        symmetries: Any = (),
        activation: str | Activation = "tanh",
        initial_scale: float = 1e-2,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(device=device, dtype=dtype)
        self.dim = whole("dim", dim)
        self.width = whole("width", width)
        self.parameter_count = whole("parameters", parameters, 0)
        self.blocks = as_blocks(split, dim, parameters)
        read = dim + parameters
        self.activation = as_activation(activation)
        group = generated_group(symmetries, read)
        check_compatible([*self.blocks, [*range(dim, read)]], group)
        self.constant("base", factors_at_zero(vanishing, dim, parameters))
        back = torch.linalg.inv(group).mT / len(group)  # (element, dim, dim)
        if is_diagonal(group):
            group, back = (matrices.diagonal(dim1=-2, dim2=-1) for matrices in (group, back))
        self.constant("group", None if len(group) == 1 else group)
        self.constant("back", back)
        # all W_a below one another; `place` says where their rows stand among all components
        counts = torch.tensor([read - len(block) for block in self.blocks])
        inner = torch.randn(int(counts.sum()), width, **self.factory_kwargs)  # (row, width)
        fan_in = counts.repeat_interleave(counts).unsqueeze(1).to(**self.factory_kwargs)  # (row, 1)
        self.inner_weight = nn.Parameter(inner / fan_in.sqrt())
        mask = torch.zeros(len(self.blocks), read, 1, dtype=torch.float64)
        for a, block in enumerate(self.blocks):
            mask[a, block] = 1
        self.constant("place", (mask == 0).flatten().nonzero().squeeze(1))
        self.constant("mask", mask[:, :dim])
        self.inner_bias = nn.Parameter(
            2 * torch.rand(len(self.blocks), width, **self.factory_kwargs) - 1
        )
        # every component that moves is in one block, so one row each: the A_a below one another
        outer = torch.randn(dim, width, **self.factory_kwargs)
        self.outer_weight = nn.Parameter(initial_scale * outer)

    def _matrices(self) -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
        """Return inner (dim + m, hidden), bias, and outer (hidden, dim) weights of each block.

        Zeros stand where a block must not be read or written, which costs less than indexing.
        """
        read = self.dim + self.parameter_count
        empty = self.inner_weight.new_zeros(len(self.blocks) * read, self.width)
        inner = empty.index_copy(0, self.place, self.inner_weight)  # (block * (dim + m), width)
        outer = self.mask * self.outer_weight  # (block, dim, width)
        # unbind and not inner[a]: its derivative is one stack, not a sum of padded zeros; and only
        # then the group, which makes the matrices wider
        steps = zip(
            inner.view(-1, read, self.width).unbind(),
            self.inner_bias.unbind(),
            outer.unbind(),
            strict=True,
        )
        if self.group is None:
            return [(W, b, A.mT) for W, b, A in steps]
        states = slice(self.dim)
        back = self.back[:, states] if self.back.ndim == 2 else self.back[:, states, states]
        return [
            (self._folded(W, self.group), b.repeat(len(self.group)), self._folded(A, back).mT)
            for W, b, A in steps
        ]

    @staticmethod
    def _folded(W: torch.Tensor, group: torch.Tensor) -> torch.Tensor:
        """Return the S^T W (dim, hidden) of all S side by side; diagonal S are given as vectors."""
        if group.ndim == 2:
            return (group.mT.unsqueeze(-1) * W.unsqueeze(1)).flatten(1)  # (dim, element * width)
        return (group.mT @ W).transpose(0, 1).flatten(1)  # (dim, element * width)

    @torch.no_grad()
    def at(self, parameters: torch.Tensor) -> AdditiveCoupling:
        """Return the coupling at parameters (m,), which join the biases.

        The group, and what is subtracted, make hidden layers wider.
        """
        n = self.dim
        steps = [neurons_at(parameters, W, b, A.mT, self.base) for W, b, A in self._matrices()]
        result = copy.deepcopy(self)
        result.parameter_count = 0
        result.width = len(steps[0][1])
        result.group = result.base = None
        result.place = (self.mask == 0).flatten().nonzero().squeeze(1)
        rest = [others(block, n) for block in self.blocks]
        inner = [W[rows] for rows, (W, _, _) in zip(rest, steps, strict=True)]
        result.inner_weight = nn.Parameter(torch.cat(inner))
        result.inner_bias = nn.Parameter(torch.stack([b for _, b, _ in steps]))
        result.outer_weight = nn.Parameter(sum(A for _, _, A in steps))  # type: ignore[arg-type]
        return result

    def transform(
        self, z: torch.Tensor, sign: int, parameters: torch.Tensor | None = None
    ) -> torch.Tensor:
        for W, b, A in self._matrices()[::sign]:
            x = joined(z, parameters)  # (..., dim + m)
            hidden = self.activation(x @ W + b)  # (..., hidden)
            if self.base is not None:
                hidden = hidden - self.activation((x * self.base) @ W + b)  # (..., hidden)
            z = torch.add(z, hidden @ A, alpha=sign)  # (..., dim)
        return z


class Coupling(InvertibleLayer):
    r"""A sweep of additive couplings with any functions.

    For each block a of components in turn, with b the components not in a:

    .. math:: X_a \mapsto X_a + g_a(X_b)

    The :math:`g_a` may mix the time steps of a window (attention, say): the Jacobian of each step
    is unit triangular all the same. ``AdditiveCoupling`` is the fast special case of one hidden
    layer.

    Parameters
    ----------
    dim : int
    functions : sequence of Module
        Function of each block, from (..., dim - size of the block) to (..., size of the block), for
        any number of leading axes.
    split, symmetries
        Arguments of ``AdditiveCoupling``; the average over symmetries evaluates the functions once,
        with the elements of the group along a leading axis.

    Raises
    ------
    InputError
        If there are more or fewer functions than blocks, or symmetries mix blocks.

    References
    ----------
    Dinh, Krueger, Bengio, NICE, arXiv 1410.8516, section 3.2.

    Examples
    --------
    >>> functions = [torch.nn.Linear(1, 1) for _ in range(2)]
    >>> shears = vp.nn.Coupling(2, functions)  # of z_1 by z_2, then of z_2 by z_1
    >>> z = torch.rand(5, 2)
    >>> bool(torch.allclose(shears.inverse(shears(z)), z))
    True
    """

    @on_cpu
    def __init__(
        self,
        dim: int,
        functions: Sequence[nn.Module],
        *,
        split: Blocks = "coordinates",
        symmetries: Any = (),
    ) -> None:
        super().__init__(**factory_like(nn.ModuleList(functions)))
        self.dim = whole("dim", dim)
        self.blocks = as_blocks(split, dim)
        if len(functions) != len(self.blocks):
            raise InputError(
                f"functions must hold one module for each of the {len(self.blocks)} blocks of the "
                f"split, not {len(functions)}"
            )
        self.functions = nn.ModuleList(functions)
        group = generated_group(symmetries, dim)
        check_compatible(self.blocks, group)
        self.elements = len(group)
        inverses = torch.linalg.inv(group)  # (element, dim, dim)
        for a, block in enumerate(self.blocks):
            rest = others(block, dim)
            self.constant(f"others_{a}", torch.tensor(rest))
            self.constant(f"placement_{a}", placement(block, dim))
            # rows multiply from the left, hence the transposes
            self.constant(f"there_{a}", group[:, rest][:, :, rest].mT)
            self.constant(f"back_{a}", inverses[:, block][:, :, block].mT / len(group))

    def _shift(self, X: torch.Tensor, a: int) -> torch.Tensor:
        rest = X.index_select(-1, self.get_buffer(f"others_{a}"))  # (..., others)
        function = self.functions[a]
        if self.elements > 1:
            # (element, 1 ..., size, size) against (..., time, size)
            shape = (self.elements,) + (1,) * (X.ndim - 2)
            there = self.get_buffer(f"there_{a}").unflatten(0, shape)
            back = self.get_buffer(f"back_{a}").unflatten(0, shape)
            shift = (function(rest @ there) @ back).sum(0)  # (..., block)
        else:
            shift = function(rest)
        return shift @ self.get_buffer(f"placement_{a}")  # (..., dim)

    def transform(self, z: torch.Tensor, sign: int) -> torch.Tensor:
        for a in range(len(self.blocks))[::sign]:
            z = torch.add(z, self._shift(z, a), alpha=sign)
        return z
