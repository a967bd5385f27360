"""Attention of blocks of components: inside couplings, and by rotations of each pair (q, p)."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from vpintegrator.arguments import whole
from vpintegrator.nn.attention import MultiHeadAttention
from vpintegrator.nn.cayley import cayley, cayley_increment, lower_places, skew_matrix, skew_part
from vpintegrator.nn.couplings import Coupling
from vpintegrator.nn.layer import (
    AttentionLayer,
    Device,
    Dtype,
    InvertibleLayer,
    Layer,
    factory,
    last_size,
    on_cpu,
)
from vpintegrator.nn.scores import BilinearScores
from vpintegrator.nn.split import Blocks, as_blocks, check_compatible, others, placement
from vpintegrator.nn.symmetry import (
    canonical_blocks,
    check_even,
    generated_group,
    signed_permutations,
)


class CoupledAttention(InvertibleLayer, AttentionLayer):
    r"""Attention inside a coupling: arbitrary weighting, volume preserved, explicitly invertible.

    For each block of components in turn, the values of that block over the window, :math:`X_a`
    (window, size), are rotated in time by the correlations of the other components :math:`X_b`:

    .. math:: X_a \mapsto \Lambda(C_a)^T X_a, \qquad C_a = B_a + \operatorname{tril}(S_a, -1)
        - \operatorname{tril}(S_a, -1)^T, \quad S_a = X_b A_a X_b^T,

    with the Cayley transform :math:`\Lambda(C) = (I - C)(I + C)^{-1}`. :math:`B_a` is a constant
    skew matrix, and :math:`A_a` is arbitrary. The Jacobian of each step is block triangular with
    orthogonal blocks, so the determinant is exactly 1; the inverse takes the steps backwards.
    Where symmetries leave no skew weighting (the sign flips of the rigid body), this is the
    attention that remains.

    Parameters
    ----------
    dim, window : int
        Components of a state, time steps in a window (at least 2).
    split : "coordinates", "halves" or blocks of indices
    symmetries : sequence of (dim, dim), optional
        The layer commutes with the group they generate: :math:`C_a` is averaged over it.
    initial_scale : float
        Size of the initial :math:`A_a` and :math:`B_a`; small, for a start near the identity.
    device, dtype
        As in layers of torch.nn.

    Raises
    ------
    InputError
        If the symmetries mix blocks of the split.

    References
    ----------
    The coupling of Dinh, Krueger, Bengio (NICE, arXiv 1410.8516), with the attention of Brantner et
    al. (arXiv 2312.11166) in place of the shift.

    Examples
    --------
    >>> layer = vp.nn.CoupledAttention(dim=4, window=3)
    >>> Z = torch.rand(5, 3, 4)
    >>> bool(torch.allclose(layer.inverse(layer(Z)), Z))
    True
    """

    identity_at_zero = True
    axes = shown = ("window", "dim")
    attention_part = "block"  # name of the parts in figures of the weights
    places: torch.Tensor

    @on_cpu
    def __init__(
        self,
        dim: int,
        window: int,
        *,
        split: Blocks = "coordinates",
        symmetries: Any = (),
        initial_scale: float = 1e-2,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(device=device, dtype=dtype)
        self.dim = whole("dim", dim)
        self.window = whole("window", window, 2)
        self.blocks = as_blocks(split, dim)
        group = generated_group(symmetries, dim)
        check_compatible(self.blocks, group)
        self.constant("places", lower_places(window))
        angles = torch.randn(len(self.blocks), window * (window - 1) // 2, **self.factory_kwargs)
        self.constants = nn.Parameter(initial_scale * angles)
        self.scores = nn.ModuleList()
        for index, block in enumerate(self.blocks):
            rest = others(block, dim)
            self.constant(f"block_{index}", torch.tensor(block))
            self.constant(f"others_{index}", torch.tensor(rest))
            self.constant(f"placement_{index}", placement(block, dim))
            on_rest = group[:, rest][:, :, rest]
            options = {"symmetries": on_rest, "initial_scale": initial_scale, **self.factory_kwargs}
            self.scores.append(BilinearScores(len(rest), **options))

    def _correlations(self, X: torch.Tensor, index: int) -> torch.Tensor:
        """Return C_a: correlations of the components outside a block, and the constant B_a."""
        constant = skew_matrix(self.constants[index], self.window, self.places)  # (window, window)
        rest = X.index_select(-1, self.get_buffer(f"others_{index}"))  # (..., window, others)
        return constant + skew_part(self.scores[index](rest, rest))  # (..., window, window)

    def attention_weights(self, X: torch.Tensor) -> torch.Tensor:
        """Return the rotations (..., block, window, window) of the blocks of windows X, in order.

        Step t of a block becomes the sum over s of weight (t, s) times step s of that block; the
        blocks before it have been rotated by then.
        """
        rotations = []
        for index in range(len(self.blocks)):
            rotations.append(cayley(self._correlations(X, index)).mT)  # (..., window, window)
            X = self._rotated(X, index, 1)
        return torch.stack(rotations, -3)

    def _rotated(self, X: torch.Tensor, index: int, sign: int) -> torch.Tensor:
        block = X.index_select(-1, self.get_buffer(f"block_{index}"))  # (..., window, block)
        # (..., window, block)
        increment = cayley_increment(sign * self._correlations(X, index), block)
        return X + increment @ self.get_buffer(f"placement_{index}")  # (..., window, dim)

    def transform(self, z: torch.Tensor, sign: int) -> torch.Tensor:
        for index in range(len(self.blocks))[::sign]:
            z = self._rotated(z, index, sign)
        return z


class WindowAttention(Layer):
    r"""A function of a whole window by multihead attention: the g of a coupling.

    With a learned vector :math:`p_t` per time step, multihead attention over the window, and a
    hidden layer at every time step:

    .. math:: h_t = E z_t + p_t, \qquad u = h + \mathrm{MHA}(h), \qquad
        g_t = A \tanh(W u_t + b)

    Parameters
    ----------
    inputs, outputs : int
        Components of the vectors it reads and writes: (..., window, inputs) to
        (..., window, outputs).
    window : int
    width : int
        Components of h, divisible by ``heads``.
    heads : int
    stiefel : bool
        Keep the projections of the heads on the Stiefel manifold.
    initial_scale : float
        Size of the initial A.
    device, dtype
        As in layers of torch.nn.

    Examples
    --------
    >>> g = vp.nn.WindowAttention(2, 1, window=3, width=4, heads=2)
    >>> g(torch.zeros(5, 3, 2)).shape
    torch.Size([5, 3, 1])
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        window: int,
        width: int,
        heads: int,
        stiefel: bool = False,
        initial_scale: float = 1e-2,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(device=device, dtype=dtype)
        self.window = whole("window", window)
        self.attention = MultiHeadAttention(
            width, heads, residual=True, stiefel=stiefel, **self.factory_kwargs
        )
        self.embedding = nn.Parameter(
            torch.randn(inputs, width, **self.factory_kwargs) / inputs**0.5
        )
        self.positions = nn.Parameter(torch.randn(window, width, **self.factory_kwargs) / 2)
        self.inner_weight = nn.Parameter(
            torch.randn(width, width, **self.factory_kwargs) / width**0.5
        )
        self.inner_bias = nn.Parameter(2 * torch.rand(width, **self.factory_kwargs) - 1)
        outer = torch.randn(width, outputs, **self.factory_kwargs)
        self.outer_weight = nn.Parameter(initial_scale * outer)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        last_size("X", X, {"window": self.window, "components": self.embedding.shape[0]})
        h = self.attention(X @ self.embedding + self.positions)  # (..., window, width)
        # (..., window, outputs)
        return torch.tanh(h @ self.inner_weight + self.inner_bias) @ self.outer_weight


class AttentionCoupling(Coupling, AttentionLayer):
    r"""A sweep of couplings whose functions are multihead softmax attention over the window.

    For each block a of components in turn, with ``WindowAttention`` :math:`g_a` of the other
    components :math:`X_b`:

    .. math:: X_a \mapsto X_a + g_a(X_b)

    Softmax weights may be singular, yet every step is a shear: the volume is kept exactly, and the
    inverse takes the steps backwards.

    Parameters
    ----------
    dim, window : int
        Components of a state, time steps of a window.
    width, heads : int
        Width of the attention, divisible by its heads.
    split, symmetries
        Arguments of ``AdditiveCoupling``.
    stiefel, initial_scale
        Arguments of ``WindowAttention``.
    device, dtype
        As in layers of torch.nn.

    Raises
    ------
    InputError
        If width is not divisible by heads, or symmetries mix blocks of the split.

    References
    ----------
    Dinh, Krueger, Bengio, NICE, arXiv 1410.8516; Vaswani et al., arXiv 1706.03762.

    Examples
    --------
    >>> layer = vp.nn.AttentionCoupling(dim=4, window=3, heads=2)
    >>> Z = torch.rand(5, 3, 4)
    >>> bool(torch.allclose(layer.inverse(layer(Z)), Z))
    True
    """

    identity_at_zero = True

    def __init__(
        self,
        dim: int,
        window: int,
        *,
        width: int = 8,
        heads: int = 2,
        split: Blocks = "coordinates",
        symmetries: Any = (),
        stiefel: bool = False,
        initial_scale: float = 1e-2,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        functions = [
            WindowAttention(
                dim - len(block),
                len(block),
                window=window,
                width=width,
                heads=heads,
                stiefel=stiefel,
                initial_scale=initial_scale,
                **factory(device, dtype),
            )
            for block in as_blocks(split, dim)
        ]
        super().__init__(dim, functions, split=split, symmetries=symmetries)


class SymplecticAttention(InvertibleLayer, AttentionLayer):
    r"""Windows of each degree of freedom, rotated in time by the Cayley transform of their areas.

    With :math:`X_i = (q_i, p_i)` (window, 2) the degree of freedom i of a window of states (q, p),
    and :math:`C_i` the areas between its time steps:

    .. math:: X_i \mapsto \Lambda(C_i)^T X_i, \qquad C_i = a_i X_i J X_i^T, \qquad
        (C_i)_{ts} = a_i \left( q_i(t)\, p_i(s) - p_i(t)\, q_i(s) \right),

    with the Cayley transform :math:`\Lambda(C) = (I - C)(I + C)^{-1}`. :math:`C_i` is an invariant
    of that map, so it is the flow of a function of the areas alone and keeps
    :math:`dq_i \wedge dp_i` summed over time; a sum of areas would rotate all degrees of freedom
    alike, and is symplectic only if they all count the same: the last head here,
    :math:`C = a_0 X J X^T`.

    Parameters
    ----------
    dim : int
        Components of a state, even: positions first, then momenta.
    symmetries : sequence of (dim, dim), optional
        The layer commutes with the group they generate. Degrees of freedom that it exchanges have
        an :math:`a_i` in common; where it mixes them otherwise, only the last head is there.
    initial_scale : float
        Standard deviation of the :math:`a_i`.
    device, dtype
        As in layers of torch.nn.

    Raises
    ------
    InputError
        If dim is odd, or the symmetries mix positions and momenta or do not keep the form.

    Examples
    --------
    >>> layer = vp.nn.SymplecticAttention(dim=4)
    >>> Z = torch.rand(5, 3, 4)
    >>> bool(torch.allclose(layer.inverse(layer(Z)), Z))
    True
    """

    owner: torch.Tensor
    identity_at_zero = True
    symplectic = True
    shown = ("dim",)
    attention_part = "pair"  # of a position and its momentum

    @on_cpu
    def __init__(
        self,
        dim: int,
        *,
        symmetries: Any = (),
        initial_scale: float = 1e-2,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(device=device, dtype=dtype)
        check_even(whole("dim", dim))
        self.dim = dim
        (of_positions, _), _ = canonical_blocks(generated_group(symmetries, dim))
        count, owner = _owners(of_positions)
        self.constant("owner", owner)
        self.each = nn.Parameter(initial_scale * torch.randn(count, **self.factory_kwargs))
        self.common = nn.Parameter(initial_scale * torch.randn((), **self.factory_kwargs))

    def _areas(self, X: torch.Tensor) -> torch.Tensor:
        """Return areas (..., degree of freedom, window, window) between time steps."""
        # (..., degree, window, 1)
        q, p = (half.unsqueeze(-1).transpose(-2, -3) for half in X.chunk(2, -1))
        return q @ p.mT - p @ q.mT  # (..., degree, window, window)

    def _own(self, X: torch.Tensor) -> torch.Tensor:
        return self.each.index_select(0, self.owner)[:, None, None] * self._areas(X)

    def attention_weights(self, X: torch.Tensor) -> torch.Tensor:
        """Return the rotations (..., degree of freedom, window, window), by all heads together."""
        areas = self._areas(X).sum(-3)  # (..., window, window)
        common = cayley(self.common * areas).mT.unsqueeze(-3)  # (..., 1, window, window)
        if not len(self.each):
            return common
        return common @ cayley(self._own(X)).mT  # (..., degree, window, window)

    def _by_own(self, X: torch.Tensor, sign: int) -> torch.Tensor:
        if not len(self.each):
            return X
        pairs = torch.stack(X.chunk(2, -1), -1).transpose(-2, -3)  # (..., degree, window, q and p)
        moved = pairs + cayley_increment(sign * self._own(X), pairs)  # (..., degree, window, 2)
        q, p = moved.transpose(-2, -3).unbind(-1)  # (..., window, degree) each
        return torch.cat([q, p], -1)  # (..., window, dim)

    def _by_all(self, X: torch.Tensor, sign: int) -> torch.Tensor:
        # (..., window, dim)
        return X + cayley_increment(sign * self.common * self._areas(X).sum(-3), X)

    def transform(self, z: torch.Tensor, sign: int) -> torch.Tensor:
        steps = (self._by_own, self._by_all)  # each leaves its own areas as they are
        for step in steps[::sign]:
            z = step(z, sign)
        return z


def _owners(of_positions: torch.Tensor) -> tuple[int, torch.Tensor]:
    """Return the number of free a_i under a group, and the number that each degree uses."""
    moves = signed_permutations(of_positions)
    if moves is None:
        return 0, torch.zeros(of_positions.shape[-1], dtype=torch.long)
    result, owner = moves[0].amin(0).unique(return_inverse=True)  # the least of the orbit of each
    return len(result), owner
