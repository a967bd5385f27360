"""Volume-preserving attention with several heads: a rotation in time for each subspace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from vpintegrator.arguments import plain, whole
from vpintegrator.errors import InputError
from vpintegrator.nn.cayley import cayley, cayley_increment
from vpintegrator.nn.layer import (
    AttentionLayer,
    Device,
    Dtype,
    InvertibleLayer,
    on_cpu,
)
from vpintegrator.nn.scores import BilinearScores
from vpintegrator.nn.split import check_compatible
from vpintegrator.nn.symmetry import TOLERANCE, generated_group, is_diagonal


class MultiHeadVolumePreservingAttention(InvertibleLayer, AttentionLayer):
    r"""Volume-preserving attention in several orthogonal subspaces at once.

    For a window X (..., window, dim), a row per time step, and an orthogonal matrix Q, let
    :math:`Y = X Q^T` and :math:`Y_h` (..., window, width) the components of head h. Each head
    rotates its own components in time, and Q leads back:

    .. math:: Y_h \mapsto \Lambda(C_h)^T Y_h, \qquad C_h = s\, Y_h A_h Y_h^T, \quad A_h = -A_h^T,

    with the Cayley transform :math:`\Lambda(C) = (I - C)(I + C)^{-1}`. Each factor preserves the
    volume of the space of windows, so the layer does, at all weights. :math:`C_h` is the same after
    the rotation, hence the explicit inverse. :math:`Q = \Lambda(K)` with a skew-symmetric K that
    is zero at first stays on the orthogonal group whatever optimizer trains it. The layer is the
    identity where all weights are zero.

    Parameters
    ----------
    dim : int
        Components of a state, at least 2.
    heads : int or sequence of int
        Number of heads, among which the components are divided as evenly as possible; or the
        components of each head, at least 2.
    scale : float, optional
        Factor s of the correlations; by default 1.
    symmetries : sequence of (dim, dim), optional
        The layer commutes with the group they generate. Heads hold components that symmetries
        multiply by the same signs, as far as possible.
    initial_scale : float
        Standard deviation of the initial :math:`A_h`.
    device, dtype
        As in layers of torch.nn.

    Attributes
    ----------
    components : list of list of int
        Components of :math:`X Q^T` that each head rotates.

    Raises
    ------
    InputError
        If a head has a single component, which has no skew weighting, or the symmetries leave a
        head no weighting but zero.

    References
    ----------
    Brantner, de Romemont, Kraus, Li, arXiv 2312.11166, for one head. The heads are new here.

    Examples
    --------
    >>> attention = vp.nn.MultiHeadVolumePreservingAttention(5, heads=[3, 2], dtype=torch.float64)
    >>> Z = torch.rand(4, 5, dtype=torch.float64)  # a window of four states
    >>> D = torch.func.jacrev(attention)(Z).reshape(20, 20)
    >>> round(D.det().abs().item(), 12)
    1.0
    >>> bool(torch.allclose(attention.inverse(attention(Z)), Z))
    True
    """

    identity_at_zero = True
    shown = ("dim", "widths")

    @on_cpu
    def __init__(
        self,
        dim: int,
        heads: int | Sequence[int] = 2,
        *,
        scale: float | None = None,
        symmetries: Any = (),
        initial_scale: float = 1e-2,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(device=device, dtype=dtype)
        self.dim = whole("dim", dim, 2)
        self.widths = head_widths(dim, heads)
        group = generated_group(symmetries, dim)
        order = _similar_components(group)
        ends = torch.tensor(self.widths).cumsum(0).tolist()
        self.components = [
            sorted(order[end - width : end]) for end, width in zip(ends, self.widths, strict=True)
        ]
        check_compatible(self.components, group)
        # K of the orthogonal matrix: zero at first, so that heads begin with components of states
        self.frame = BilinearScores(
            dim, "skew", symmetries=group, initial_scale=0.0, **self.factory_kwargs
        )
        self.scores = nn.ModuleList()
        for index, members in enumerate(self.components):
            self.constant(f"components_{index}", torch.tensor(members))
            self.scores.append(
                BilinearScores(
                    len(members),
                    "skew",
                    scale=1.0 if scale is None else scale,
                    symmetries=group[:, members][:, :, members],
                    initial_scale=initial_scale,
                    **self.factory_kwargs,
                )
            )

    def orthogonal(self) -> torch.Tensor:
        """Return the matrix Q (dim, dim), whose rows are the directions of the heads."""
        return cayley(self.frame.matrix())

    def _rows(self, Q: torch.Tensor, index: int) -> torch.Tensor:
        """Return the directions (width, dim) of a head."""
        return Q.index_select(0, self.get_buffer(f"components_{index}"))

    def attention_weights(self, X: torch.Tensor) -> torch.Tensor:
        """Return the rotations (..., head, window, window) of windows X (..., window, dim).

        Step t of the components of a head becomes the sum over s of weight (t, s) times step s.
        """
        Q = self.orthogonal()
        rotations = []
        for index, score in enumerate(self.scores):
            Y = X @ self._rows(Q, index).mT  # (..., window, width)
            rotations.append(cayley(score(Y, Y)).mT)  # (..., window, window)
        return torch.stack(rotations, -3)

    def transform(self, z: torch.Tensor, sign: int) -> torch.Tensor:
        Q = self.orthogonal()
        result = z
        for index, score in enumerate(self.scores):
            directions = self._rows(Q, index)  # (width, dim)
            Y = z @ directions.mT  # (..., window, width)
            turned = cayley_increment(sign * score(Y, Y), Y, score.rank)  # type: ignore[arg-type]
            result = result + turned @ directions  # (..., window, dim)
        return result


def head_widths(dim: int, heads: int | Sequence[int]) -> list[int]:
    """Return the number of components of each head.

    Parameters
    ----------
    dim : int
        Components of a state.
    heads : int or sequence of int
        Number of heads, or the components of each.

    Raises
    ------
    InputError
        If a head has a single component, or the heads do not hold all components.

    Examples
    --------
    >>> from vpintegrator.nn.multihead_rotations import head_widths
    >>> head_widths(7, 3)
    [3, 2, 2]
    """
    if isinstance(heads, Sequence) and not isinstance(heads, str):
        widths = [whole("components of a head", plain("heads", width, (int,))) for width in heads]
        if sum(widths) != dim:
            raise InputError(
                f"heads = {widths} hold {sum(widths)} components together, but a state has {dim}"
            )
    else:
        count = whole("heads", heads)
        widths = [dim // count + (head < dim % count) for head in range(count)]
    if min(widths) < 2:
        raise InputError(
            f"heads = {heads}: a head of volume-preserving attention needs at least 2 components, "
            f"because a skew weighting of one component is zero; {dim} components allow "
            f"at most {dim // 2}"
        )
    return widths


def _similar_components(group: torch.Tensor) -> list[int]:
    """Return components in an order in which those that symmetries treat alike are together."""
    if is_diagonal(group):
        keys = group.diagonal(dim1=-2, dim2=-1).mT.round().tolist()  # the signs of each component
    else:
        keys = (group.abs() > TOLERANCE).any(0).tolist()  # the orbit of each
    # in the order in which the kinds of components first occur
    first = [keys.index(key) for key in keys]
    return sorted(range(len(keys)), key=lambda i: (first[i], i))
