"""Pointwise, residual, affine and polynomial layers, encoder blocks, polynomial leapfrogs."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import ClassVar

import torch
from torch import nn

from vpintegrator.arguments import one_of, whole
from vpintegrator.nn.attention import GeneralMultiHeadAttention, MultiHeadAttention
from vpintegrator.nn.basis import RADIUS, checked_degree, families, terms
from vpintegrator.nn.layer import (
    Activation,
    Device,
    Dtype,
    Layer,
    as_activation,
    check_parameters,
    factory,
    joined,
    neurons_at,
    on_cpu,
)


class PointwiseFeedForward(Layer):
    r"""A hidden layer with the same weights at every position of a window.

    .. math:: z \mapsto W_2\, \sigma(W_1 z + b_1) + b_2

    Parameters
    ----------
    dim : int
    inner : int, optional
        Hidden units, usually more than dim; by default 4 dim.
    activation : str or callable
    device, dtype
        As in layers of torch.nn.

    References
    ----------
    Vaswani et al., arXiv 1706.03762, section 3.3.

    Examples
    --------
    >>> layer = vp.nn.PointwiseFeedForward(dim=4, inner=16)
    >>> layer(torch.zeros(5, 3, 4)).shape
    torch.Size([5, 3, 4])
    """

    def __init__(
        self,
        dim: int,
        inner: int | None = None,
        *,
        activation: str | Activation = "relu",
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(device=device, dtype=dtype)
        whole("dim", dim)
        inner = whole("inner", 4 * dim if inner is None else inner)
        self.inner = nn.Linear(dim, inner, **self.factory_kwargs)
        self.outer = nn.Linear(inner, dim, **self.factory_kwargs)
        self.activation = as_activation(activation)

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return self.outer(self.activation(self.inner(z)))  # (..., dim)


class ResidualLayer(Layer):
    r"""A layer that adds to its input.

    .. math:: z \mapsto z + \sigma(W z + b) \qquad \text{or} \qquad z \mapsto z + V \sigma(W z + b),

    the second with a width of its own.

    Parameters
    ----------
    dim : int
    width : int, optional
        Hidden units of the second form; V starts small, so that the layer starts near the identity.
    activation : str or callable
        "identity" makes the first form linear.
    bias : bool
    parameters : int
        Number m of parameters, further inputs of W.
    device, dtype
        As in layers of torch.nn.

    References
    ----------
    He, Zhang, Ren, Sun, arXiv 1512.03385; the first form as in GeometricMachineLearning.jl.

    Examples
    --------
    >>> layer = vp.nn.ResidualLayer(dim=3)
    >>> layer(torch.zeros(5, 3)).shape
    torch.Size([5, 3])
    """

    def __init__(
        self,
        dim: int,
        width: int | None = None,
        *,
        activation: str | Activation = "tanh",
        bias: bool = True,
        parameters: int = 0,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(device=device, dtype=dtype)
        self.parameter_count = whole("parameters", parameters, 0)
        hidden = whole("dim", dim) if width is None else whole("width", width)
        self.linear = nn.Linear(dim + parameters, hidden, bias=bias, **self.factory_kwargs)
        self.outer = None
        if width is not None:
            self.outer = nn.Linear(hidden, dim, bias=False, **self.factory_kwargs)
            nn.init.normal_(self.outer.weight, std=1e-2)
        self.activation = as_activation(activation)

    @torch.no_grad()
    def at(self, parameters: torch.Tensor) -> ResidualLayer:
        """Return the layer at parameters (m,), which join the biases."""
        result = copy.deepcopy(self)
        result.parameter_count = 0
        linear = self.linear
        b = linear.weight.new_zeros(len(linear.weight)) if linear.bias is None else linear.bias
        W, b, _ = neurons_at(parameters, linear.weight.mT, b, linear.weight, None)  # type: ignore[assignment]
        result.linear = nn.utils.skip_init(nn.Linear, *W.shape, **self.factory_kwargs)
        result.linear.weight.copy_(W.mT)
        result.linear.bias.copy_(b)
        return result

    def forward(self, z: torch.Tensor, parameters: torch.Tensor | None = None) -> torch.Tensor:
        if self.parameter_count or parameters is not None:
            check_parameters(parameters, self.parameter_count)
        shift = self.activation(self.linear(joined(z, parameters)))  # (..., hidden)
        return z + (shift if self.outer is None else self.outer(shift))  # (..., dim)


class AffineMap(Layer):
    r"""Affine map of states, the identity at first.

    .. math:: z \mapsto A z + b

    Parameters
    ----------
    dim : int
        Components of a state.
    device, dtype
        As in layers of torch.nn.

    Attributes
    ----------
    matrix : Parameter, (dim, dim)
        A.
    offset : Parameter, (dim,)
        b.

    Examples
    --------
    >>> layer = vp.nn.AffineMap(2)
    >>> layer(torch.ones(1, 2)).tolist()
    [[1.0, 1.0]]
    """

    def __init__(self, dim: int, *, device: Device = None, dtype: Dtype = None) -> None:
        super().__init__(device=device, dtype=dtype)
        self.dim = whole("dim", dim)
        self.matrix = nn.Parameter(torch.eye(dim, **self.factory_kwargs))
        self.offset = nn.Parameter(torch.zeros(dim, **self.factory_kwargs))

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return z @ self.matrix.mT + self.offset  # (..., dim)

    def inverse(self, z: torch.Tensor) -> torch.Tensor:
        """Return the states that ``forward`` maps to z."""
        return torch.linalg.solve(self.matrix, (z - self.offset).unsqueeze(-1)).squeeze(-1)


NORMS = ["layer", "batch", "none"]


class Norm(nn.Module):
    """torch's layer norm, batch norm over all positions, or none, for sequences (..., dim).

    Parameters
    ----------
    dim : int
    kind : {"layer", "batch", "none"}
        Batch norm keeps running means, so in training mode it cannot be used under vmap. In
        evaluation mode it takes these, so that a vector's image does not depend on the others.
    device, dtype
        As in layers of torch.nn.
    """

    def __init__(self, dim: int, kind: str, *, device: Device = None, dtype: Dtype = None) -> None:
        super().__init__()
        one_of("norm", kind, NORMS)
        options = factory(device, dtype)
        self.norm: nn.Module = {
            "layer": lambda: nn.LayerNorm(dim, **options),
            "batch": lambda: nn.BatchNorm1d(dim, **options),
            "none": nn.Identity,
        }[kind]()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if isinstance(self.norm, nn.BatchNorm1d):
            rows = x.reshape(-1, x.shape[-1])  # (vector, dim)
            norm = self.norm
            if len(rows) > 1:
                return norm(rows).view(x.shape)
            # a batch of one has no variance: the running statistics stand for it
            return nn.functional.batch_norm(
                rows, norm.running_mean, norm.running_var, norm.weight, norm.bias, eps=norm.eps
            ).view(x.shape)
        return self.norm(x)


class EncoderBlock(Layer):
    r"""An encoder block of the standard transformer, with the norm last.

    With attention A and a pointwise feed-forward network F:

    .. math:: u = \operatorname{Norm}(z + A(z)), \qquad y = \operatorname{Norm}(u + F(u))

    Parameters
    ----------
    dim : int
        Components of the vectors of a sequence (..., length, dim), divisible by ``heads``.
    heads : int
        Heads of the attention A, if no attention is given; by default one.
    attention : Module, optional
        A, without a residual connection; by default general multihead attention.
    inner : int, optional
        Hidden units of the pointwise network; by default 4 dim.
    norm : {"layer", "batch", "none"}
    stiefel : bool
        Multihead attention by projections with orthonormal rows (without biases and output
        projection) instead of the general one.
    activation : str or callable
    device, dtype
        As in layers of torch.nn.

    Notes
    -----
    With the layer norm and stiefel=False it is ``torch.nn.TransformerEncoderLayer`` without
    dropout.

    References
    ----------
    Vaswani et al., arXiv 1706.03762, section 3.1.

    Examples
    --------
    >>> block = vp.nn.EncoderBlock(dim=4, heads=2)
    >>> block(torch.zeros(5, 3, 4)).shape
    torch.Size([5, 3, 4])
    """

    def __init__(
        self,
        dim: int,
        heads: int = 1,
        *,
        attention: nn.Module | None = None,
        inner: int | None = None,
        norm: str = "layer",
        stiefel: bool = False,
        activation: str | Activation = "relu",
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(device=device, dtype=dtype)
        options = self.factory_kwargs
        if attention is None and stiefel:
            attention = MultiHeadAttention(dim, heads, stiefel=True, **options)
        elif attention is None:
            attention = GeneralMultiHeadAttention(dim, heads, **options)
        self.attention = attention
        self.feed_forward = PointwiseFeedForward(dim, inner, activation=activation, **options)
        self.attention_norm = Norm(dim, norm, **options)
        self.feed_forward_norm = Norm(dim, norm, **options)

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        z = self.attention_norm(z + self.attention(z))  # (..., length, dim)
        return self.feed_forward_norm(z + self.feed_forward(z))  # (..., length, dim)


class WindowPolynomials(Layer):
    """Products of Chebyshev polynomials of the components of states, or of windows.

    They are the terms of :class:`PolynomialLayer`, which has the parameters.

    Parameters
    ----------
    dim, degree, window, periodic, margin, device, dtype
        As in :class:`PolynomialLayer`.

    Raises
    ------
    InputError
        If there are more than 2,000 terms.
    """

    shown = ("dim", "degree", "window")
    unread: ClassVar[tuple[int, ...]] = ()  # rows that the polynomial does not read
    chosen: torch.Tensor
    box_shift: torch.Tensor
    box_scale: torch.Tensor

    @on_cpu
    def __init__(
        self,
        dim: int,
        degree: int = 3,
        *,
        window: int = 1,
        periodic: Sequence[int] = (),
        margin: float = 1.05,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(device=device, dtype=dtype)
        self.dim = whole("dim", dim)
        self.degree = checked_degree(degree)
        self.margin = margin
        self.window = whole("window", window)
        self.read = self.window - len(self.unread)
        self.size = self.dim * self.read  # number of variables
        self.kinds = families(self.size, periodic)
        self.angles = [k for k in range(self.dim) if self.kinds[k].is_angle]
        self.constant("chosen", torch.tensor(terms(degree, self.kinds)))  # (term, size)
        for k, (parents, functions) in enumerate(_products(self.chosen)):
            self.constant(f"parents_{k}", parents)
            self.constant(f"functions_{k}", functions)
        self.register_buffer("box_shift", torch.zeros(self.size, **self.factory_kwargs))
        self.register_buffer("box_scale", torch.ones(self.size, **self.factory_kwargs))

    @property
    def orders(self) -> torch.Tensor:
        """Degree of each term in each variable, (term, size)."""
        columns = [torch.tensor(kind.orders(self.degree)) for kind in self.kinds]
        places = self.chosen.cpu()
        return torch.stack([degrees[places[:, k]] for k, degrees in enumerate(columns)], 1)

    def adapt(self, z: torch.Tensor) -> None:
        """Take the box of states z (state, dim); differences are at most their range."""
        if self.window == 1:
            self.adapt_to(z)
            return
        # (1, dim) each
        low = z.amin(0, keepdim=True)
        high = z.amax(0, keepdim=True)
        rows = [low, high] * self.window
        ends = (rows[: self.window], rows[1 : self.window + 1])
        self.adapt_to(torch.stack([torch.cat(each) for each in ends]))

    @torch.no_grad()
    def adapt_to(self, z: torch.Tensor) -> None:
        """Take the box of states (state, dim), or of windows (pair, window, dim)."""
        x = self.variables(z.double())
        # (size,) each
        low = x.amin(0)
        high = x.amax(0)
        fixed = (high == low) | torch.tensor([kind.is_angle for kind in self.kinds])
        self.box_shift.copy_(torch.where(fixed, 0.0, (low + high) / 2))
        self.box_scale.copy_(torch.where(fixed, 1.0, self.margin * (high - low) / 2 / RADIUS))

    def variables(self, z: torch.Tensor) -> torch.Tensor:
        """Return the newest state and the differences (..., size) of states or windows."""
        if self.window == 1:
            return z
        rows = z[..., -self.read :, :]
        change = rows[..., 1:, :] - rows[..., :-1, :]  # (..., read - 1, dim)
        if self.angles:
            each = list(change.unbind(-1))
            for k in self.angles:
                each[k] = torch.atan2(torch.sin(each[k]), torch.cos(each[k]))
            change = torch.stack(each, -1)
        changes = [change[..., row, :] for row in reversed(range(self.read - 1))]
        return torch.cat([z[..., -1, :], *changes], -1)

    def values(self, z: torch.Tensor) -> torch.Tensor:
        """Return the values of the terms (..., term) at states (..., dim) or windows."""
        u = (self.variables(z) - self.box_shift) / self.box_scale  # (..., size)
        products = torch.ones_like(u[..., :1]).movedim(-1, 0)
        for k, kind in enumerate(self.kinds):
            functions = torch.stack(kind.jet(u[..., k], self.degree)[0])  # (function, ...)
            before = products.index_select(0, getattr(self, f"parents_{k}"))
            products = before * functions.index_select(0, getattr(self, f"functions_{k}"))
        return products.movedim(0, -1)

    def jet(self, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the values of the terms, and their derivatives by the newest state.

        They are (..., term) and (..., dim, term), at states (..., dim) or windows. The newest
        state is in the first variables, and in the first differences.
        """
        u = (self.variables(z) - self.box_shift) / self.box_scale  # (..., size)
        products = torch.ones_like(u[..., :1])  # (..., product)
        slopes = torch.zeros_like(u[..., : self.dim, None])  # (..., dim, product)
        newest = 2 * self.dim if self.read > 1 else self.dim
        for k, kind in enumerate(self.kinds):
            values, derivatives = (
                torch.stack(each, -1) for each in kind.jet(u[..., k], self.degree, 1)
            )
            parents = getattr(self, f"parents_{k}")
            functions = getattr(self, f"functions_{k}")
            before = products.index_select(-1, parents)
            factors = values.index_select(-1, functions)
            slopes = slopes.index_select(-1, parents) * factors.unsqueeze(-2)
            if k < newest:
                own = before * derivatives.index_select(-1, functions) / self.box_scale[k]
                place = torch.arange(self.dim, device=u.device) == k % self.dim
                slopes = slopes + own.unsqueeze(-2) * place.unsqueeze(-1).to(own)
            products = before * factors
        return products, slopes


class PolynomialLayer(WindowPolynomials):
    r"""Polynomial map of states, the identity at first, or of windows.

    .. math:: z \mapsto z + \sum_e c_e\, \prod_i T_{e_i}\!\left(\frac{x_i - b_i}{w_i}\right),
        \qquad |e| \le \text{degree}

    products of Chebyshev polynomials up to a total degree on the box :math:`b_i \pm w_i`, or of
    sines and cosines of components that are angles. Variables x of a state are its components.
    Those of a window :math:`(z_1, \dots, z_T)` are the newest state :math:`z = z_T` and the
    differences :math:`z_T - z_{T-1}, \dots, z_2 - z_1`, each with a box of its own, as products of
    states that are close together are nearly dependent. The window is shifted, and its newest row
    is new. No structure is kept.

    Parameters
    ----------
    dim : int
        Components of a state.
    degree : int
        Largest total degree of a term; of an angle the order of the harmonic counts.
    window : int
        States that are read. With one, states (..., dim) are mapped; with more, windows
        (..., window, dim).
    periodic : sequence of int
        Components that are angles, in radians. Their differences go by the shortest way.
    margin : float
        Size of the box relative to the range of the variables.
    device, dtype
        As in layers of torch.nn.

    Attributes
    ----------
    coefficients : Parameter, (term, dim)
        c.
    decays : tuple of float
        Decay of the coefficients with the degree in each variable, as ridge regression chose it.

    Raises
    ------
    InputError
        If there are more than 2,000 terms.

    Examples
    --------
    >>> layer = vp.nn.PolynomialLayer(dim=2, degree=3)
    >>> layer.coefficients.shape
    torch.Size([10, 2])
    >>> vp.nn.PolynomialLayer(dim=2, degree=3, window=2).coefficients.shape
    torch.Size([35, 2])
    """

    @on_cpu
    def __init__(
        self,
        dim: int,
        degree: int = 3,
        *,
        window: int = 1,
        periodic: Sequence[int] = (),
        margin: float = 1.05,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(
            dim,
            degree,
            window=window,
            periodic=periodic,
            margin=margin,
            device=device,
            dtype=dtype,
        )
        self.decays: tuple[float, ...] = ()
        self.coefficients = nn.Parameter(torch.zeros(len(self.chosen), dim, **self.factory_kwargs))

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return self.shifted(z, self.values(z) @ self.coefficients)

    def origin(self, z: torch.Tensor) -> torch.Tensor:
        """Return the state (..., dim) to which the polynomial adds, of states or windows."""
        return z if self.window == 1 else z[..., -1, :]

    def shifted(self, z: torch.Tensor, change: torch.Tensor) -> torch.Tensor:
        """Return the next states or windows, given the value (..., dim) of the polynomial."""
        new = self.origin(z) + change
        if self.window == 1:
            return new
        return torch.cat([z[..., 1:, :], new.unsqueeze(-2)], -2)  # (..., window, dim)


def _products(chosen: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield how terms are made of factors, one variable after the other.

    A product of the first k variables is one of the first k - 1, times a function of the k-th: the
    numbers of both (product,) each. Terms share products of few variables.
    """
    before = torch.zeros(len(chosen), dtype=torch.long)  # product that each term begins with
    for k in range(chosen.shape[1]):
        pairs = torch.stack([before, chosen[:, k]], 1)
        different, before = torch.unique(pairs, dim=0, return_inverse=True)
        if k == chosen.shape[1] - 1:
            different = pairs  # the terms in their own order
        yield different[:, 0], different[:, 1]


class LeapfrogLayer(PolynomialLayer):
    r"""Polynomial leapfrog of windows, which preserves their volume.

    .. math:: (z_1, \dots, z_T) \mapsto (z_2, \dots, z_T,\; z_1 + f(z_2, \dots, z_T))

    with a polynomial f, zero at first, of the newest state and the differences as in
    :class:`PolynomialLayer`. The oldest state is added, and enters nowhere else. So the determinant
    of the map of windows is 1 or -1 whatever f is, and the inverse is a formula. With T = 2 and
    :math:`f = 2 h v(z_2)` it is the explicit midpoint rule of a vector field v.

    Parameters
    ----------
    dim : int
        Components of a state.
    degree : int
        Largest total degree of a term.
    window : int
        States of a window, at least 2; f reads all but the oldest.
    periodic, margin, device, dtype
        As in :class:`PolynomialLayer`.

    Raises
    ------
    InputError
        If the window is too short, or there are more than 2,000 terms.

    Examples
    --------
    >>> layer = vp.nn.LeapfrogLayer(dim=2, degree=3, window=3)
    >>> Z = torch.rand(5, 3, 2)
    >>> bool(torch.allclose(layer.inverse(layer(Z)), Z))
    True
    """

    volume_preserving = True
    unread = (0,)

    @on_cpu
    def __init__(
        self,
        dim: int,
        degree: int = 3,
        *,
        window: int = 2,
        periodic: Sequence[int] = (),
        margin: float = 1.05,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        whole("window", window, 2)
        super().__init__(
            dim,
            degree,
            window=window,
            periodic=periodic,
            margin=margin,
            device=device,
            dtype=dtype,
        )

    def origin(self, z: torch.Tensor) -> torch.Tensor:
        """Return the oldest state (..., dim)."""
        return z[..., 0, :]

    def inverse(self, z: torch.Tensor) -> torch.Tensor:
        """Return the windows (..., window, dim) that ``forward`` maps to z."""
        change = self.values(torch.cat([z[..., :1, :], z[..., :-1, :]], -2)) @ self.coefficients
        oldest = z[..., -1, :] - change  # (..., dim)
        return torch.cat([oldest.unsqueeze(-2), z[..., :-1, :]], -2)
