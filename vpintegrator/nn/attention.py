"""Attention layers: scores of time steps, and normalisers that make weights of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from vpintegrator.arguments import called, divisible, one_of, whole
from vpintegrator.errors import InputError
from vpintegrator.nn.cayley import (
    cayley,
    cayley_increment,
    lower_matrix,
    lower_places,
    skew_matrix,
    skew_part,
)
from vpintegrator.nn.layer import (
    Activation,
    AttentionLayer,
    Device,
    Dtype,
    InvertibleLayer,
    Layer,
    factory,
    last_size,
    on_cpu,
)
from vpintegrator.nn.scores import AdditiveScores, BilinearScores, Heads, ProductScores


class Attention(Layer, AttentionLayer):
    r"""Each time step becomes a weighted sum of time steps, by weights that scores give.

    For a window X (..., window, dim), a row per time step, with scores S(X) (key, query):

    .. math:: X \mapsto N(S(X))^T X

    where the normaliser N is the softmax over each column, or the Cayley transform
    :math:`\Lambda(C) = (I - C)(I + C)^{-1}` of the skew correlations

    .. math:: C = \operatorname{tril}(S, -1) - \operatorname{tril}(S, -1)^T,

    which is S itself where S is skew. Weights by softmax are a stochastic matrix, which may be
    near singular; weights by the Cayley transform are rotations. Any other function N will do.

    Parameters
    ----------
    scores : Module
        Function of queries (..., query, dim) and keys (..., key, dim) that gives S
        (..., key, query), see ``vpintegrator.nn.scores``. The layer preserves volume and has an
        inverse where its attribute ``invariant`` is true and the normaliser is "cayley".
    normaliser : {"softmax", "cayley"} or callable
        Name, or a function or module that takes scores (..., key, query) to weights of the same
        shape, such as a sigmoid.
    value : Module, optional
        Map of the time steps that are summed, by default the identity; or to heads
        (..., head, key, width), where the scores have heads. These stand beside one another after.
    output : Module, optional
        Map of the sums.
    residual : bool
        Add the input to the output.

    Notes
    -----
    Queries may come from another sequence than keys, and keys than values.

    Examples
    --------
    >>> distance = lambda query, key: -torch.cdist(key, query)  # scores of one's own
    >>> attention = vp.nn.Attention(distance)
    >>> attention(torch.zeros(5, 3, 4)).shape
    torch.Size([5, 3, 4])
    """

    def __init__(
        self,
        scores: Any,
        normaliser: str | Callable[[torch.Tensor], torch.Tensor] = "softmax",
        *,
        value: nn.Module | None = None,
        output: nn.Module | None = None,
        residual: bool = False,
    ) -> None:
        super().__init__()
        self.scores = scores
        self.value = value
        self.output = output
        if isinstance(normaliser, str):
            one_of("normaliser", normaliser, ["softmax", "cayley"])
        else:
            called("normaliser", normaliser, "softmax, cayley, or a function")
        self.normaliser = normaliser
        self.residual = residual
        self.invariant: bool = getattr(scores, "invariant", False)
        plain = value is None and output is None and not residual
        is_cayley = isinstance(normaliser, str) and normaliser == "cayley"
        self.volume_preserving = self.invariant and is_cayley and plain

    def correlations(self, query: torch.Tensor, key: torch.Tensor | None = None) -> torch.Tensor:
        """Return the skew-symmetric C (..., window, window) of windows (..., window, dim)."""
        S = self.scores(query, query if key is None else key)  # (..., key, query)
        return S if self.invariant else skew_part(S)

    def attention_weights(
        self,
        query: torch.Tensor,
        key: torch.Tensor | None = None,
        value: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return the weights (..., query, key), or (..., head, query, key), whatever the values.

        Step t of the output is the sum over s of weight (t, s) times value s.
        """
        if self.normaliser == "cayley":
            return cayley(self.correlations(query, key)).mT  # (..., query, key)
        S = self.scores(query, query if key is None else key)  # (..., key, query)
        if callable(self.normaliser):
            return self.normaliser(S).mT  # (..., query, key)
        return torch.softmax(S.mT, -1)  # (..., query, key)

    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor | None = None,
        value: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Map queries (..., query, dim), keys and values (..., key, dim) to (..., query, dim).

        Keys are the queries where none are given, and values the keys.
        """
        value = (query if key is None else key) if value is None else value
        if self.normaliser == "cayley":
            C = self.correlations(query, key)  # (..., key, query)
            V = value if self.value is None else self.value(value)  # (..., [head,] key, width)
            Y = V + cayley_increment(C, V, getattr(self.scores, "rank", None))
        else:
            W = self.attention_weights(query, key)  # (..., [head,] query, key)
            V = value if self.value is None else self.value(value)  # (..., [head,] key, width)
            Y = W @ V  # (..., [head,] query, width)
        if V.ndim > value.ndim:
            Y = Y.transpose(-2, -3).flatten(-2)  # (..., query, head * width)
        if self.output is not None:
            Y = self.output(Y)
        return query + Y if self.residual else Y

    def inverse(self, z: torch.Tensor) -> torch.Tensor:
        """Return the windows that ``forward`` maps to z, where the layer preserves volume."""
        if not self.volume_preserving:
            raise InputError(
                f"{type(self).__name__} as built here has no explicit inverse; use "
                'VolumePreservingAttention with weighting="skew", or CoupledAttention'
            )
        # (..., window, dim)
        return z + cayley_increment(-self.correlations(z), z, self.scores.rank)


class VolumePreservingAttention(Attention):
    r"""Windows rotated in time by the Cayley transform of their own correlations.

    For a window X (..., window, dim), a row per time step, with the Cayley transform
    :math:`\Lambda(C) = (I - C)(I + C)^{-1}`:

    .. math:: X \mapsto \Lambda(C)^T X, \qquad C = s X A X^T, \quad A = -A^T.

    This is the skew weighting. The layer preserves the volume of the space of windows exactly, for
    any A: with :math:`Y = \Lambda(C)^T X`, the correlations :math:`s Y A Y^T` are again C, because
    :math:`\Lambda(C)` commutes with C. C is an invariant of the layer, and its inverse is
    :math:`X = \Lambda(C(Y))\, Y`.

    With the arbitrary weighting, which is the published form, A is any matrix and

    .. math:: C = s \left( \operatorname{tril}(S, -1) - \operatorname{tril}(S, -1)^T \right),
        \qquad S = X A X^T.

    It rotates every window, but by an angle that depends on the window in a way that does **not**
    preserve volume (determinants between -10 and 200 are common for weights of size one), and it
    has no explicit inverse. ``CoupledAttention`` is the alternative that keeps an arbitrary
    weighting and the volume.

    Parameters
    ----------
    dim : int
        Components of a state, at least 2 (skew).
    weighting : {"skew", "arbitrary"}
    scale : float, optional
        Factor s of the correlations; by default 1. GeometricMachineLearning.jl takes 1/sqrt(dim)
        with the arbitrary weighting and 1 with the skew one.
    symmetries : sequence of (dim, dim), optional
        Matrices S; A is kept invariant under the group they generate, :math:`A = S^T A S`, so
        that the layer commutes with every S.
    initial_scale : float
        Standard deviation of the initial weights; small, for a start near the identity.
    device, dtype
        As in layers of torch.nn.

    Raises
    ------
    InputError
        If the symmetries leave no weighting of the kind but zero.

    Notes
    -----
    :math:`X A X^T` has at most the rank of A, so with the skew weighting and up to three components
    the rotation has a closed form however long the window is; otherwise windows of more than three
    steps take one matrix inversion each.

    References
    ----------
    Brantner, de Romemont, Kraus, Li, Volume-preserving transformers for learning time series data
    with structure, arXiv 2312.11166.

    Examples
    --------
    >>> attention = vp.nn.VolumePreservingAttention(dim=3, dtype=torch.float64)
    >>> Z = torch.rand(4, 3, dtype=torch.float64)  # a window of four states
    >>> D = torch.func.jacrev(attention)(Z).reshape(12, 12)
    >>> round(D.det().abs().item(), 12)
    1.0
    """

    volume_preserving = True
    identity_at_zero = True
    shown = ("dim", "weighting")

    def __init__(
        self,
        dim: int,
        weighting: str = "skew",
        *,
        scale: float | None = None,
        symmetries: Any = (),
        initial_scale: float = 1e-2,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        scores = BilinearScores(
            dim,
            one_of("weighting", weighting, ["skew", "arbitrary"]),
            scale=1.0 if scale is None else scale,
            symmetries=symmetries,
            initial_scale=initial_scale,
            **factory(device, dtype),
        )
        super().__init__(scores, "cayley")
        self.dim = dim
        self.weighting = weighting


class MultiplicativeAttention(Attention):
    r"""Attention with bilinear scores, without structure.

    For a window X (..., window, dim), with :math:`Z = X^T` and softmax over each column:

    .. math:: Z \mapsto Z \operatorname{softmax}(Z^T W Z)

    The layer has no inverse and does not preserve volume. With the normaliser "cayley" it is
    ``VolumePreservingAttention`` with the arbitrary weighting, and does not preserve volume either.

    Parameters
    ----------
    dim : int
    normaliser : {"softmax", "cayley"} or callable
        See ``Attention``.
    residual : bool
        Add the input to the output.
    initial_scale : float, optional
        Standard deviation of the initial W; by default 1/dim.
    device, dtype
        As in layers of torch.nn.

    References
    ----------
    Luong, Pham, Manning, arXiv 1508.04025 ("general" score); Brantner, arXiv 2305.16901.

    Examples
    --------
    >>> attention = vp.nn.MultiplicativeAttention(dim=4, residual=True)
    >>> attention(torch.zeros(5, 3, 4)).shape
    torch.Size([5, 3, 4])
    """

    shown = ("dim", "normaliser", "residual")

    def __init__(
        self,
        dim: int,
        *,
        normaliser: str | Callable[[torch.Tensor], torch.Tensor] = "softmax",
        residual: bool = False,
        initial_scale: float | None = None,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        size = 1 / whole("dim", dim) if initial_scale is None else initial_scale
        scores = BilinearScores(dim, initial_scale=size, device=device, dtype=dtype)
        super().__init__(scores, normaliser, residual=residual)
        self.dim = dim


class AdditiveAttention(Attention):
    r"""Attention whose scores are those of a hidden layer, without structure.

    .. math:: z_q \mapsto \sum_k \operatorname{softmax}_k(s_{kq})\, z_k, \qquad
        s_{kq} = v^T \tanh(W z_q + U z_k)

    for queries q and keys k. It has no inverse and does not preserve volume.

    Parameters
    ----------
    dim : int
    width : int, optional
        Rows of W and U; by default dim.
    activation : str or callable
        Function of the hidden layer, in place of tanh.
    normaliser : {"softmax", "cayley"} or callable
        See ``Attention``.
    residual : bool
        Add the input to the output.
    device, dtype
        As in layers of torch.nn.

    References
    ----------
    Bahdanau, Cho, Bengio, arXiv 1409.0473, appendix A.1.2.

    Examples
    --------
    >>> layer = vp.nn.AdditiveAttention(dim=3)
    >>> layer(torch.zeros(5, 4, 3)).shape  # (..., window, dim)
    torch.Size([5, 4, 3])
    """

    shown = ("dim", "normaliser", "residual")

    def __init__(
        self,
        dim: int,
        width: int | None = None,
        *,
        activation: str | Activation = "tanh",
        normaliser: str | Callable[[torch.Tensor], torch.Tensor] = "softmax",
        residual: bool = False,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        scores = AdditiveScores(
            dim,
            dim if width is None else width,
            activation=activation,
            device=device,
            dtype=dtype,
        )
        super().__init__(scores, normaliser, residual=residual)
        self.dim = dim


class MultiHeadAttention(Attention):
    r"""Self-attention in several subspaces at once, without output projection.

    Head i projects :math:`Z = X^T` by matrices P (dim / heads, dim), and gives

    .. math:: V_i \operatorname{softmax}(s K_i^T Q_i), \qquad
        Q_i = P_i^Q Z, \quad K_i = P_i^K Z, \quad V_i = P_i^V Z,

    softmax over each column; the heads stand one above the other. It has no inverse and does not
    preserve volume by itself; inside a ``Coupling`` it does.

    Parameters
    ----------
    dim : int
        Components of the vectors of a window (..., window, dim), divisible by ``heads``.
    heads : int
    residual : bool
        Add the input to the output ("add connection").
    stiefel : bool
        Keep every P on the Stiefel manifold (orthonormal rows), see ``vpintegrator.nn.stiefel``.
    scale : float, optional
        Factor s of the scores; by default 1/sqrt(dim/heads).
    device, dtype
        As in layers of torch.nn.

    Raises
    ------
    InputError
        If dim is not divisible by heads.

    References
    ----------
    Vaswani et al., arXiv 1706.03762, section 3.2.2; Brantner, arXiv 2305.16901, section 6.

    Examples
    --------
    >>> attention = vp.nn.MultiHeadAttention(dim=4, heads=2)
    >>> attention(torch.zeros(5, 3, 4)).shape
    torch.Size([5, 3, 4])
    """

    shown = ("residual",)

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        residual: bool = False,
        stiefel: bool = False,
        scale: float | None = None,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        width = divisible("dim", dim, "heads", heads)
        query, key, value = (
            Heads(dim, heads, width, orthonormal=True, stiefel=stiefel, device=device, dtype=dtype)
            for _ in range(3)
        )
        scores = ProductScores(query, key, width**-0.5 if scale is None else float(scale))
        super().__init__(scores, value=value, residual=residual)
        self.dim = dim
        self.heads = heads


class GeneralMultiHeadAttention(Attention):
    r"""Multihead attention between two sequences, of any widths, with output projection.

    Queries come from M vectors of :math:`c_q` components, keys and values from N vectors of
    :math:`c_k` and :math:`c_v` components. Head h projects them to :math:`d_k` and :math:`d_v`
    components, and

    .. math:: c_{hj} = \sum_k \operatorname{softmax}_k
        \left( \frac{q_{hj} \cdot k_{hk}}{\sqrt{d_k}} \right) v_{hk}.

    The output is :math:`W^o` applied to the stacked heads, which is the sum over the heads of their
    own projections :math:`W_h^o c_{hj}`. It does not preserve volume.

    Parameters
    ----------
    query_dim : int
        :math:`c_q`.
    key_dim, value_dim : int, optional
        :math:`c_k` and :math:`c_v`; by default :math:`c_q` and :math:`c_k`.
    heads : int
    key_width, value_width : int, optional
        :math:`d_k` and :math:`d_v` of each head; by default :math:`c_q` / heads (which must be
        whole) and :math:`d_k`.
    output_dim : int, optional
        :math:`d_o`; by default :math:`c_q`.
    bias : bool
        Whether the projections of queries, keys, values and output have biases.
    scale : float, optional
        Factor of the scores; by default :math:`1/\sqrt{d_k}`.
    residual : bool
        Add the queries' sequence to the output, which must be as wide.
    device, dtype
        As in layers of torch.nn.

    Raises
    ------
    InputError
        If query_dim is not divisible by heads and no key_width is given.

    Notes
    -----
    ``torch.nn.MultiheadAttention`` is the special case in which heads times :math:`d_k`, heads
    times :math:`d_v`, :math:`d_o` and :math:`c_q` are the same.

    References
    ----------
    Vaswani et al., arXiv 1706.03762, section 3.2.2; Phuong, Hutter, Formal algorithms for
    transformers, arXiv 2207.09238, algorithm 5.

    Examples
    --------
    >>> attention = vp.nn.GeneralMultiHeadAttention(4, heads=2, key_dim=6)
    >>> attention(torch.rand(3, 4), torch.rand(5, 6)).shape
    torch.Size([3, 4])
    """

    def __init__(
        self,
        query_dim: int,
        heads: int = 1,
        *,
        key_dim: int | None = None,
        value_dim: int | None = None,
        key_width: int | None = None,
        value_width: int | None = None,
        output_dim: int | None = None,
        bias: bool = True,
        scale: float | None = None,
        residual: bool = False,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        key_dim = query_dim if key_dim is None else key_dim
        value_dim = key_dim if value_dim is None else value_dim
        if key_width is None:
            key_width = divisible("query_dim", query_dim, "heads", heads)
        value_width = key_width if value_width is None else value_width
        output_dim = query_dim if output_dim is None else output_dim
        shapes = ((query_dim, key_width), (key_dim, key_width), (value_dim, value_width))
        query, key, value = (
            Heads(whole("dim", dim), heads, width, bias=bias, device=device, dtype=dtype)
            for dim, width in shapes
        )
        scores = ProductScores(query, key, key_width**-0.5 if scale is None else float(scale))
        stacked = heads * value_width
        output_dim = whole("output_dim", output_dim)
        output = nn.Linear(stacked, output_dim, bias, **factory(device, dtype))
        super().__init__(scores, value=value, output=output, residual=residual)


class TimeMixing(InvertibleLayer):
    r"""The time steps of a window mixed by a constant rotation, and by shears if asked for.

    .. math:: X \mapsto \Lambda(B)^T (I + L) (I + U)\, X, \qquad
        \Lambda(B) = (I - B)(I + B)^{-1}, \quad B = -B^T

    with L strictly lower and U strictly upper triangular, both zero without shears. All components
    of a state are mixed alike. The map is linear with determinant 1. Two such maps, or one and
    ``VolumePreservingAttention``, preserve volume one after the other;
    :math:`\Lambda(C(X) + B)` in one transform does not.

    A rotation keeps the length of a window, so it cannot extrapolate. With shears it can: the map
    of :math:`(z_1, z_2)` to :math:`(z_2, 2 z_2 - z_1)` is a quarter turn after a shear with
    :math:`U_{12} = -2`.

    Parameters
    ----------
    window : int
        Time steps, at least 2. Acts on (..., window, any).
    shears : bool
        Whether L and U are there.
    initial_scale : float
        Standard deviation of the initial entries of B, L and U.
    device, dtype
        As in layers of torch.nn.

    Examples
    --------
    >>> layer = vp.nn.TimeMixing(window=3)
    >>> Z = torch.rand(5, 3, 4)
    >>> bool(torch.allclose(layer(Z).square().sum(), Z.square().sum()))  # it rotates
    True
    """

    identity_at_zero = True
    shown = ("window", "shears")
    places: torch.Tensor

    @on_cpu
    def __init__(
        self,
        window: int,
        *,
        shears: bool = False,
        initial_scale: float = 1e-2,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(device=device, dtype=dtype)
        self.window = whole("window", window, 2)
        self.shears = shears
        self.constant("places", lower_places(window))
        count = window * (window - 1) // 2
        self.entries = nn.Parameter(initial_scale * torch.randn(count, **self.factory_kwargs))
        if shears:
            both = torch.randn(2, count, **self.factory_kwargs)
            self.shear_entries = nn.Parameter(initial_scale * both)

    def _check_sizes(self, z: torch.Tensor) -> None:
        last_size("z", z[..., 0], {"window": self.window})

    def _triangular(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return L and U (window, window)."""
        lower, upper = lower_matrix(self.shear_entries, self.window, self.places)
        return lower, upper.mT

    def transform(self, z: torch.Tensor, sign: int) -> torch.Tensor:
        B = sign * skew_matrix(self.entries, self.window, self.places)  # (window, window)
        if not self.shears:
            return z + cayley_increment(B, z)  # (..., window, any)
        L, U = self._triangular()
        if sign > 0:
            z = z + U @ z  # (..., window, any)
            z = z + L @ z
            return z + cayley_increment(B, z)
        z = z + cayley_increment(B, z)
        one = torch.eye(self.window, dtype=z.dtype, device=z.device)
        for triangular in (L, U):  # with ones on the diagonal, so it is always regular
            z = torch.linalg.inv_ex(one + triangular).inverse @ z
        return z
