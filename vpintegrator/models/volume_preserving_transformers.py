"""Volume-preserving transformers: attention over a window, then volume-preserving layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import torch
from torch import nn

from vpintegrator.arguments import divisible, whole
from vpintegrator.errors import InputError
from vpintegrator.models.components import Components, Functions
from vpintegrator.models.model import Model
from vpintegrator.models.stored import Blocks, Matrices, Periods
from vpintegrator.models.volume_preserving import pointwise_layers
from vpintegrator.nn import (
    AttentionCoupling,
    Composition,
    CoupledAttention,
    Lifted,
    MultiHeadVolumePreservingAttention,
    TimeMixing,
    VolumePreservingAttention,
)
from vpintegrator.nn.layer import default_dtype
from vpintegrator.nn.split import as_blocks
from vpintegrator.nn.symmetry import invariant_entries


class VolumePreservingTransformer(Model):
    r"""``depth`` units of volume-preserving attention and a volume-preserving feed-forward network.

    .. math:: \psi = F_L \circ A_L \circ \cdots \circ F_1 \circ A_1

    with attention :math:`A_l` over the window and feed-forward layers :math:`F_l` of every state.
    With the skew and the coupled weighting the map of whole windows is exactly volume-preserving
    and explicitly invertible; with reversing symmetries it is also reversible. With the arbitrary
    weighting it is none of these, and ``structure`` says so. ``published`` makes the
    transformer of the paper.

    Parameters
    ----------
    dim
        Components of a state, at least 2 without a lift.
    window
        Time steps read, at least 2.
    prediction_window
        Time steps predicted; by default all of the window. With fewer, the map shifts windows and
        keeps no structure.
    lift
        Successive states that attention and couplings take as one state of more components, see
        ``Lifted``. It divides the window, and the volume of windows of states is kept. With a lift
        of 2 or more a single component has skew weightings too.
    depth
        Number of units.
    width, functions, degree, expressions
        As in ``VolumePreservingFeedForward``.
    weighting
        The attention: ``VolumePreservingAttention`` with that weighting, or ``CoupledAttention``.
        "auto" is "skew", or "coupled" where several reversing symmetries leave no skew weighting
        but zero (the sign flips of the rigid body). The attribute ``weighting`` says which it is.
        With "none" there is no attention, and whole windows are mapped state by state: the control
        for what attention gains, whose energy does not drift where symmetries reverse the map.
    heads
        Heads of the skew weighting, or a list of the components of each, at least 2; see
        ``MultiHeadVolumePreservingAttention``. One by default, which rotates all components alike.
    attention_scale
        Factor of the correlations, for "skew" and "arbitrary"; 1 by default.
    initial_attention
        Size of the initial weights of attention; by default ``initial_scale``. With 0 attention
        begins as the identity. For complete states polynomials of higher degree then err less.
    time_mixing
        Whether each unit also mixes the time steps by a constant rotation and constant shears, see
        ``TimeMixing``. By default where fewer states are predicted than read: the newest state then
        differs from the others. Observations that are no complete states need it, as positions do,
        whose next one is near 2 q_n - q_{n-1}.
    feed_forward, blocks, linear, upper_first, split, bases, sweep
        As in ``VolumePreservingFeedForward``.
    activation, initial_scale, reversing_symmetries, periodic, cyclic, dtype
        As in ``VolumePreservingFeedForward``.

    Raises
    ------
    InputError
        For sizes that do not fit, symmetries that mix blocks of the split, reversing symmetries
        with the arbitrary weighting, the skew weighting or a head where they leave only zero, or a
        head of a single component.

    References
    ----------
    Brantner, de Romemont, Kraus, Li, Volume-preserving transformers for learning time series data
    with structure, arXiv 2312.11166.

    Examples
    --------
    >>> model = vp.models.VolumePreservingTransformer(dim=3, window=3, depth=1)
    >>> Z = torch.rand(3, 3, dtype=torch.float64)
    >>> round(torch.func.jacrev(model)(Z).reshape(9, 9).det().abs().item(), 12)
    1.0
    """

    name = "vpt"
    reads_equations = True

    @default_dtype(torch.float64)
    def __init__(
        self,
        dim: int,
        *,
        window: int = 3,
        prediction_window: int | None = None,
        lift: int = 1,
        depth: int = 2,
        width: int = 16,
        functions: Literal["neurons", "polynomial"] = "neurons",
        degree: int = 6,
        expressions: Sequence[str] = (),
        weighting: Literal["auto", "skew", "coupled", "arbitrary", "none"] = "auto",
        heads: int | Sequence[int] = 1,
        attention_scale: float | None = None,
        initial_attention: float | None = None,
        time_mixing: bool | None = None,
        feed_forward: Literal["coupling", "triangular"] = "coupling",
        blocks: int = 2,
        linear: int = 1,
        upper_first: bool = False,
        split: Blocks = "coordinates",
        bases: int = 1,
        sweep: Literal["forward", "symmetric"] = "forward",
        activation: str = "tanh",
        initial_scale: float = 1e-2,
        reversing_symmetries: Matrices = (),
        periodic: Periods = (),
        cyclic: Sequence[int] = (),
        dtype: str | torch.dtype = "float64",
    ) -> None:
        components = Components(dim, reversing_symmetries, periodic, cyclic)
        whole("window", window, 2)
        rows = divisible("window", window, "lift", lift)
        lifted = components.lifted(lift)
        if rows < 2:
            raise InputError(
                f"lift = {lift} leaves one row of window = {window}, and attention needs two; take "
                f"window = {2 * lift}, or a smaller lift"
            )
        if lift > 1 and len(expressions):
            raise InputError("expressions are functions of one state; leave them out, or the lift")
        whole("dim" if lift == 1 else "dim * lift", lifted.dim, 2)
        scores = _weighting(weighting, lifted)
        if heads != 1 and scores != "skew":
            raise InputError(
                f"heads = {heads} are for weighting = skew, not {scores}; take heads = 1, or "
                "fewer reversing_symmetries where they leave no skew weighting"
            )
        size = initial_scale if initial_attention is None else initial_attention
        shared: dict[str, Any] = {"symmetries": lifted.group, "initial_scale": size}
        profile = Functions(functions, width, degree, expressions, activation, initial_scale)
        stack = (blocks, linear, upper_first) if feed_forward == "triangular" else None
        parts = _lifted_split(split, dim, lift)
        mixed = prediction_window not in (None, window) if time_mixing is None else time_mixing
        layers: list[nn.Module] = []
        for _ in range(whole("depth", depth)):
            attention: nn.Module | None = None
            if scores == "coupled":
                moved = as_blocks(parts, lifted.dim)
                attention = CoupledAttention(lifted.dim, rows, split=moved, **shared)
            elif scores == "none":
                pass
            elif heads != 1:
                attention = MultiHeadVolumePreservingAttention(
                    lifted.dim, heads, scale=attention_scale, **shared
                )
            else:
                attention = VolumePreservingAttention(
                    lifted.dim, scores, scale=attention_scale, **shared
                )
            mixing = [TimeMixing(window, shears=True, initial_scale=initial_scale)] if mixed else []
            first = [] if attention is None else [attention]
            others = pointwise_layers(lifted, profile, parts, bases, sweep, stack)
            if lift > 1:
                first = [Lifted(layer, lift) for layer in first]
                others = [Lifted(layer, lift) for layer in others]
            layers += [*first, *mixing, *others]
        super().__init__(Composition(*layers), components, window, prediction_window, dtype=dtype)
        self.weighting = scores

    @classmethod
    def published(
        cls,
        dim: int,
        *,
        weighting: Literal["skew", "arbitrary"] = "skew",
        dtype: str | torch.dtype = "float32",
    ) -> Self:
        """Make the transformer of arXiv 2312.11166: 162 parameters in three dimensions.

        It reads and predicts windows of three states by three units of attention and two blocks of
        triangular layers, with tanh, in single precision. The initial weights are small, so that
        the map starts near the identity; those of the paper are of size one.

        Parameters
        ----------
        dim
            Components of a state.
        weighting
            The skew weighting, or the arbitrary one with the scale ``dim**-0.5`` (180 parameters).
        dtype
            Type of the weights.

        Examples
        --------
        >>> model = vp.models.VolumePreservingTransformer.published(3)
        >>> sum(weight.numel() for weight in model.parameters())
        162
        """
        return cls(
            dim,
            window=3,
            prediction_window=3,
            depth=3,
            weighting=weighting,
            attention_scale=None if weighting == "skew" else dim**-0.5,
            feed_forward="triangular",
            time_mixing=False,
            dtype=dtype,
        )

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, weighting={self.weighting!r}"


def _lifted_split(split: Blocks, dim: int, lift: int) -> Blocks:
    """Return blocks of the components of so many states: those of a block at all times."""
    if lift == 1 or split == "coordinates":
        return split
    starts = [dim * place for place in range(lift)]
    return [[start + i for start in starts for i in block] for block in as_blocks(split, dim)]


def _weighting(weighting: str, components: Components) -> str:
    """Return the weighting that "auto" stands for, and refuse one that symmetries do not allow."""
    group = components.group
    skew = len(group) == 1 or invariant_entries("skew", group)[2] > 0
    if weighting == "none":
        return "none"
    if weighting == "arbitrary" and len(components.reversing_symmetries):
        raise InputError(
            'weighting = "arbitrary" has no explicit inverse, so it cannot be made reversible; use '
            "skew or coupled, or no reversing_symmetries"
        )
    if weighting == "skew" and not skew:
        raise InputError(
            'weighting = "skew": the reversing symmetries leave no skew weighting but zero; use '
            '"coupled" (or "auto", which chooses it), or fewer reversing_symmetries'
        )
    return weighting if weighting != "auto" else "skew" if skew else "coupled"


class VolumePreservingMultiheadTransformer(Model):
    r"""``depth`` units of couplings by multihead softmax attention and of pointwise couplings.

    The attention of the standard transformer, over the whole window and with several heads, as the
    function inside additive couplings: :math:`X_a \mapsto X_a + g(X_b)` for each block of
    components in turn. So the map of whole windows preserves volume exactly although softmax does
    not, it is explicitly invertible, and with reversing symmetries it is reversible.

    Parameters
    ----------
    dim
        Components of a state, at least 2.
    window
        Time steps read.
    prediction_window, depth
        As in ``VolumePreservingTransformer``.
    width, functions, degree, expressions
        As in ``VolumePreservingFeedForward``.
    weighting
        Volume-preserving attention that each unit begins with, so that both kinds of attention are
        stacked: by the skew or the coupled weighting, or "auto" as in
        ``VolumePreservingTransformer``; "none" for couplings alone.
    time_mixing
        Whether each unit also mixes the time steps by a constant rotation and constant shears, see
        ``TimeMixing``.
    attention_width
        Width of the attention, divisible by its heads.
    heads
        Heads of the attention.
    stiefel
        Whether the projections of the heads stay on the Stiefel manifold.
    split, bases, sweep
        As in ``VolumePreservingFeedForward``.
    activation, initial_scale, reversing_symmetries, periodic, cyclic, dtype
        As in ``VolumePreservingFeedForward``.

    Raises
    ------
    InputError
        If attention_width is not divisible by heads, symmetries mix blocks of the split, or they
        leave no skew weighting that is asked for.

    References
    ----------
    New here; made of Vaswani et al., arXiv 1706.03762, and Dinh, Krueger, Bengio (NICE),
    arXiv 1410.8516.

    Examples
    --------
    >>> model = vp.models.VolumePreservingMultiheadTransformer(dim=4, window=3, depth=1, heads=2)
    >>> Z = torch.rand(5, 3, 4, dtype=torch.float64)
    >>> bool(torch.allclose(model.inverse(model(Z)), Z))
    True
    """

    name = "vpmt"
    reads_equations = True

    @default_dtype(torch.float64)
    def __init__(
        self,
        dim: int,
        *,
        window: int = 3,
        prediction_window: int | None = None,
        depth: int = 2,
        width: int = 16,
        functions: Literal["neurons", "polynomial"] = "neurons",
        degree: int = 6,
        expressions: Sequence[str] = (),
        weighting: Literal["none", "auto", "skew", "coupled"] = "none",
        time_mixing: bool = False,
        attention_width: int = 4,
        heads: int = 2,
        stiefel: bool = False,
        split: Blocks = "coordinates",
        bases: int = 1,
        sweep: Literal["forward", "symmetric"] = "forward",
        activation: str = "tanh",
        initial_scale: float = 1e-2,
        reversing_symmetries: Matrices = (),
        periodic: Periods = (),
        cyclic: Sequence[int] = (),
        dtype: str | torch.dtype = "float64",
    ) -> None:
        components = Components(dim, reversing_symmetries, periodic, cyclic)
        profile = Functions(functions, width, degree, expressions, activation, initial_scale)
        blocks = as_blocks(split, whole("dim", dim, 2))
        scores = _weighting(weighting, components)
        shared: dict[str, Any] = {"symmetries": components.group, "initial_scale": initial_scale}
        layers: list[nn.Module] = []
        for _ in range(whole("depth", depth)):
            if scores == "coupled":
                layers.append(CoupledAttention(dim, window, split=blocks, **shared))
            elif scores == "skew":
                layers.append(VolumePreservingAttention(dim, **shared))
            if time_mixing:
                layers.append(TimeMixing(window, shears=True, initial_scale=initial_scale))
            layers.append(
                AttentionCoupling(
                    dim,
                    window,
                    width=attention_width,
                    heads=heads,
                    split=blocks,
                    stiefel=stiefel,
                    **shared,
                )
            )
            layers += pointwise_layers(components, profile, split, bases, sweep)
        super().__init__(Composition(*layers), components, window, prediction_window, dtype=dtype)
