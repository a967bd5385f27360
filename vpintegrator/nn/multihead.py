"""Multihead attention: projections onto subspaces, and the general form."""

from __future__ import annotations

import torch
from torch import nn

from vpintegrator.arguments import divisible, whole
from vpintegrator.nn.layer import Attention, Layer
from vpintegrator.nn.stiefel import stiefel as on_stiefel
from vpintegrator.nn.tensor_arguments import last_size


class MultiHeadAttention(Layer, Attention):
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
    >>> attention(torch.zeros(5, 3, 4, dtype=torch.float64)).shape
    torch.Size([5, 3, 4])
    """

    shown = ("dim", "heads", "residual")
    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        residual: bool = False,
        stiefel: bool = False,
        scale: float | None = None,
    ) -> None:
        super().__init__()
        width = divisible("dim", dim, "heads", heads)
        self.dim, self.heads, self.residual = dim, heads, residual
        self.scale = width**-0.5 if scale is None else float(scale)
        for name in ("query", "key", "value"):
            weight = torch.empty(heads, width, dim, dtype=torch.float64)
            for projection in weight:
                nn.init.orthogonal_(projection)
            self.register_parameter(name, nn.Parameter(weight))
            if stiefel:
                on_stiefel(self, name)

    @property
    def acts(self) -> bool:
        return not self.residual or bool(self.value.any())

    def _project(self, X: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """Map (..., window, dim) to (..., head, window, dim/heads), all heads in one product."""
        stacked = X @ weight.flatten(0, 1).mT
        return stacked.unflatten(-1, (self.heads, -1)).transpose(-2, -3)

    def attention_weights(self, X: torch.Tensor) -> torch.Tensor:
        r"""Return weights (..., head, window, window): queries by rows, keys by columns.

        They are :math:`\operatorname{softmax}(s Q_i^T K_i)` over each row, the transpose of the
        formula above.
        """
        queries, keys = self._project(X, self.query), self._project(X, self.key)
        # written out because windows are short and all derivatives of it are plain ones
        return torch.softmax(self.scale * queries @ keys.mT, -1)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        last_size("X", X, {"dim": self.dim})
        heads = self.attention_weights(X) @ self._project(X, self.value)
        output = heads.transpose(-2, -3).flatten(-2)
        return X + output if self.residual else output


class GeneralMultiHeadAttention(Layer, Attention):
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
    residual : bool
        Add the queries' sequence to the output, which must be as wide.

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
    >>> queries, keys = (torch.rand(*s, dtype=torch.float64) for s in ((3, 4), (5, 6)))
    >>> attention(queries, keys).shape
    torch.Size([3, 4])
    """

    shown = ("heads",)

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
        residual: bool = False,
    ) -> None:
        super().__init__()
        self.query_dim = whole("query_dim", query_dim)
        self.heads = whole("heads", heads)
        self.key_dim = whole("key_dim", query_dim if key_dim is None else key_dim)
        self.value_dim = whole("value_dim", self.key_dim if value_dim is None else value_dim)
        if key_width is None:
            key_width = divisible("query_dim", query_dim, "heads", heads)
        value_width = key_width if value_width is None else value_width
        stacked_keys = heads * whole("key_width", key_width)
        stacked_values = heads * whole("value_width", value_width)
        output_dim = whole("output_dim", query_dim if output_dim is None else output_dim)
        self.residual = residual
        self.query = nn.Linear(query_dim, stacked_keys, bias=bias, dtype=torch.float64)
        self.key = nn.Linear(self.key_dim, stacked_keys, bias=bias, dtype=torch.float64)
        self.value = nn.Linear(self.value_dim, stacked_values, bias=bias, dtype=torch.float64)
        self.output = nn.Linear(stacked_values, output_dim, bias=bias, dtype=torch.float64)

    @property
    def acts(self) -> bool:
        return not self.residual or any(bool(weight.any()) for weight in self.output.parameters())

    def heads_of(
        self,
        query: torch.Tensor,
        key: torch.Tensor | None = None,
        value: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return the heads :math:`c_{hj}` (..., head, M, d_v) before the output projection."""
        key = query if key is None else key
        value = key if value is None else value
        last_size("query", query, {"query_dim": self.query_dim})
        last_size("key", key, {"key_dim": self.key_dim})
        last_size("value", value, {"sequence": key.shape[-2], "value_dim": self.value_dim})
        return nn.functional.scaled_dot_product_attention(
            self._split(self.query(query)),
            self._split(self.key(key)),
            self._split(self.value(value)),
        )

    def _split(self, stacked: torch.Tensor) -> torch.Tensor:
        """Map (..., sequence, heads width) to (..., head, sequence, width)."""
        return stacked.unflatten(-1, (self.heads, -1)).transpose(-2, -3)

    def attention_weights(
        self,
        query: torch.Tensor,
        key: torch.Tensor | None = None,
        value: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return the weights (..., head, M, N): softmax over the keys, whatever the values are."""
        queries, keys = self.query(query), self.key(query if key is None else key)
        scores = self._split(queries) @ self._split(keys).mT
        return torch.softmax(scores / (queries.shape[-1] // self.heads) ** 0.5, -1)

    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor | None = None,
        value: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Map queries (..., M, c_q), keys (..., N, c_k), values (..., N, c_v) to (..., M, d_o).

        Without keys the queries' sequence is used, without values that of the keys.
        """
        output = self.output(self.heads_of(query, key, value).transpose(-2, -3).flatten(-2))
        return query + output if self.residual else output
