"""Transformers without structure: the standard one as an integrator, and one of images."""

from __future__ import annotations

from typing import Literal, Self

import torch
from torch import nn

from vpintegrator.arguments import divisible, of_kind, one_of, whole
from vpintegrator.errors import InputError
from vpintegrator.models.model import Model
from vpintegrator.nn import (
    AdditiveAttention,
    Composition,
    EncoderBlock,
    GeneralMultiHeadAttention,
    MultiHeadAttention,
    MultiplicativeAttention,
    ResidualLayer,
)
from vpintegrator.nn.feed_forward import Norm
from vpintegrator.nn.layer import as_dtype, default_dtype, last_size

_LEAST_WIDTH = 8


class Positions(nn.Module):
    """X -> X + P with a learned vector per time step."""

    def __init__(self, window: int, dim: int) -> None:
        super().__init__()
        self.vectors = nn.Parameter(1e-2 * torch.randn(window, dim, dtype=torch.float64))

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return X + self.vectors


class StandardTransformer(Model):
    """``depth`` units of attention and feed-forward layers: no structure is preserved.

    The baseline that volume-preserving transformers are measured against. Each unit is attention,
    ``blocks`` residual layers with the activation and a linear one; or the encoder block of the
    literature, attention and a pointwise feed-forward network with a norm after each, which is
    block = "encoder", attention = "general", activation = "relu". If ``width`` differs from dim,
    affine layers lead there and back. ``published`` makes the baseline of arXiv 2312.11166.

    Parameters
    ----------
    dim
        Components of a state.
    window
        Time steps read.
    prediction_window
        Time steps predicted; by default all of the window. With fewer, the map shifts windows.
    depth
        Number of units.
    width
        Components inside; by default dim, but at least 8. Divisible by ``heads``.
    embedding
        Whether affine layers lead to the components inside and back; by default where ``width``
        differs from dim, which needs them.
    heads
        Attention heads; by default one for each component inside.
    blocks
        Nonlinear residual layers in a unit.
    residual
        Whether each attention adds its input to its output.
    positions
        Whether a learned vector is added per time step; without, attention cannot tell the time
        steps apart.
    norm
        Normalisation after attention and after the feed-forward layers of each unit; "auto" is
        "layer" for encoder blocks, else "none".
    stiefel
        Whether the projections of the heads stay on the Stiefel manifold.
    attention_scale
        Factor of the scores; by default 1/sqrt(width/heads).
    activation
        Activation of the feed-forward layers.
    block
        Layers after attention: residual layers, or the pointwise feed-forward network of an encoder
        block.
    attention
        Multihead attention by projections; the general one, with biases and a projection of its
        output; or attention of one head with multiplicative or additive scores.
    inner
        Hidden units of the pointwise networks of encoder blocks; by default 4 width.
    dtype
        Type of the weights; they are drawn in float64.

    Raises
    ------
    InputError
        If width is not divisible by heads, or other sizes do not fit.

    References
    ----------
    Vaswani et al., arXiv 1706.03762; as an integrator: GeometricMachineLearning.jl,
    ``StandardTransformerIntegrator``.

    Examples
    --------
    >>> model = vp.models.StandardTransformer(dim=3, window=4, depth=1)
    >>> model(torch.zeros(5, 4, 3, dtype=torch.float64)).shape
    torch.Size([5, 4, 3])
    """

    name = "transformer"

    @default_dtype(torch.float64)
    def __init__(
        self,
        dim: int,
        *,
        window: int = 3,
        prediction_window: int | None = None,
        depth: int = 2,
        width: int | None = None,
        embedding: bool | None = None,
        heads: int | None = None,
        blocks: int = 1,
        residual: bool = True,
        positions: bool = True,
        norm: Literal["auto", "layer", "batch", "none"] = "auto",
        stiefel: bool = False,
        attention_scale: float | None = None,
        activation: str = "tanh",
        block: Literal["residual", "encoder"] = "residual",
        attention: Literal["multihead", "general", "multiplicative", "additive"] = "multihead",
        inner: int | None = None,
        dtype: str | torch.dtype = "float64",
    ) -> None:
        if attention != "multihead" and (stiefel or attention_scale is not None):
            raise InputError("stiefel and attention_scale are for attention = multihead")
        encoder = block == "encoder"
        if encoder and not residual:
            raise InputError("residual = false is for block = residual")
        whole("blocks", blocks, 0)
        inside = max(dim, _LEAST_WIDTH) if width is None else whole("width", width)
        embedded = inside != dim if embedding is None else embedding
        if not embedded and inside != dim:
            raise InputError(
                f"embedding = false needs as many components inside as in a state: width = {dim}, "
                f"not {inside}"
            )
        heads = inside if heads is None else whole("heads", heads)
        if norm == "auto":
            norm = "layer" if encoder else "none"

        def mixing(residual: bool) -> nn.Module:
            """Return a layer of attention."""
            if attention == "multihead":
                return MultiHeadAttention(
                    inside, heads, residual=residual, stiefel=stiefel, scale=attention_scale
                )
            if attention == "general":
                return GeneralMultiHeadAttention(inside, heads, residual=residual)
            one = MultiplicativeAttention if attention == "multiplicative" else AdditiveAttention
            return one(inside, residual=residual)

        layers: list[nn.Module] = []
        if embedded:
            layers.append(nn.Linear(dim, inside, dtype=torch.float64))
        if positions:
            layers.append(Positions(window, inside))
        for _ in range(whole("depth", depth)):
            if encoder:  # the block adds the input itself
                attention_layer = mixing(residual=False)
                layers.append(
                    EncoderBlock(
                        inside,
                        attention=attention_layer,
                        inner=inner,
                        norm=norm,
                        activation=activation,
                    )
                )
                continue
            layers += [mixing(residual), Norm(inside, norm)]
            layers += [ResidualLayer(inside, activation=activation) for _ in range(blocks)]
            layers += [ResidualLayer(inside, activation="identity"), Norm(inside, norm)]
        if norm == "none":
            layers = [layer for layer in layers if not isinstance(layer, Norm)]
        if embedded:
            layers.append(nn.Linear(inside, dim, dtype=torch.float64))
        super().__init__(Composition(*layers), dim, window, prediction_window, dtype=dtype)

    @classmethod
    def published(
        cls, dim: int, *, embedding: bool = True, dtype: str | torch.dtype = "float32"
    ) -> Self:
        """Make the standard transformer of arXiv 2312.11166: 213 parameters in three dimensions.

        It reads and predicts windows of three states by three units of attention of one head and
        two nonlinear residual layers and a linear one, with tanh, in single precision. No learned
        vector tells the time steps apart, and attention does not add its input. An affine layer
        comes before the units, and another after them.

        Parameters
        ----------
        dim
            Components of a state, inside too.
        embedding
            Whether the affine layers are there, as in the paper. GeometricMachineLearning.jl has
            left them out since, with 189 parameters.
        dtype
            Type of the weights.

        Examples
        --------
        >>> model = vp.models.StandardTransformer.published(3)
        >>> sum(weight.numel() for weight in model.parameters())
        213
        """
        return cls(
            dim,
            window=3,
            prediction_window=3,
            depth=3,
            blocks=2,
            heads=1,
            width=dim,
            embedding=embedding,
            positions=False,
            residual=False,
            dtype=dtype,
        )


def image_patches(images: torch.Tensor, patch: int) -> torch.Tensor:
    """Cut images (..., height, width) into square patches, row by row of patches.

    Parameters
    ----------
    images
        (..., height, width).
    patch
        Pixels on a side of a patch.

    Returns
    -------
    Tensor, (..., number of patches, patch * patch)
        The sequence that a transformer reads.

    Raises
    ------
    InputError
        If height or width is not divisible by patch.

    Examples
    --------
    >>> vp.models.image_patches(torch.zeros(5, 8, 8), 4).shape
    torch.Size([5, 4, 16])
    """
    of_kind("images", images, torch.Tensor, "a tensor (..., height, width)")
    if images.ndim < 2:
        raise InputError(f"images have shape {tuple(images.shape)}, not (..., height, width)")
    rows = divisible("height", images.shape[-2], "patch", patch)
    columns = divisible("width", images.shape[-1], "patch", patch)
    cut = images.unflatten(-1, (columns, patch)).unflatten(-3, (rows, patch))
    return cut.transpose(-2, -3).flatten(-2).flatten(-3, -2)


class ClassificationTransformer(nn.Module):
    """Images cut into patches, ``depth`` units of attention and residual layer, softmax read-out.

    Parameters
    ----------
    height, width
        Size of an image in pixels.
    patch
        Size of its square patches, which must fill the image.
    classes
        Number of classes.
    depth
        Number of units: multihead attention, then a residual layer.
    heads
        Attention heads; must divide the components inside.
    inside
        Components of the vectors inside; by default patch * patch, without an embedding.
    residual
        Whether each attention adds its input to its output.
    positions
        Whether a learned vector is added per patch.
    stiefel
        Whether the projections of the heads stay on the Stiefel manifold.
    norm
        Normalisation after each attention and each residual layer.
    readout
        Whether the mean over the sequence is classified, or its first vector.
    activation
        Activation of the residual layers.
    dtype
        Type of the weights; they are drawn in float64.

    Raises
    ------
    InputError
        If patches do not fill the image or heads do not divide the width.

    References
    ----------
    Dosovitskiy et al., arXiv 2010.11929; with Stiefel weights: Brantner, arXiv 2305.16901.

    Examples
    --------
    >>> model = vp.models.ClassificationTransformer(height=8, width=8, patch=4, classes=10, heads=2)
    >>> model(torch.zeros(5, 8, 8, dtype=torch.float64)).shape
    torch.Size([5, 10])
    """

    volume_preserving = False

    @default_dtype(torch.float64)
    def __init__(
        self,
        *,
        height: int,
        width: int,
        patch: int,
        classes: int,
        depth: int = 2,
        heads: int = 2,
        inside: int | None = None,
        residual: bool = True,
        positions: bool = True,
        stiefel: bool = False,
        norm: Literal["layer", "batch", "none"] = "none",
        readout: Literal["mean", "first"] = "mean",
        activation: str = "tanh",
        dtype: str | torch.dtype = "float64",
    ) -> None:
        super().__init__()
        one_of("readout", readout, ["mean", "first"])
        self.height = height
        self.width = width
        self.patch = patch
        self.readout = readout
        length = divisible("height", height, "patch", patch)
        length *= divisible("width", width, "patch", patch)
        size = patch * patch if inside is None else whole("inside", inside)
        layers: list[nn.Module] = []
        if inside is not None:
            layers.append(nn.Linear(patch * patch, inside, dtype=torch.float64))
        if positions:
            layers.append(Positions(length, size))
        for _ in range(whole("depth", depth)):
            layers += [
                MultiHeadAttention(size, heads, residual=residual, stiefel=stiefel),
                Norm(size, norm),
                ResidualLayer(size, activation=activation),
                Norm(size, norm),
            ]
        self.layers = Composition(*layers)
        self.output = nn.Linear(size, whole("classes", classes), dtype=torch.float64)
        self.to(as_dtype(dtype))

    def logits(self, images: torch.Tensor) -> torch.Tensor:
        """Return scores (..., classes) of images (..., height, width), for cross-entropy losses."""
        last_size("images", images, {"height": self.height, "width": self.width})
        sequence = self.layers(image_patches(images, self.patch))
        vector = sequence.mean(-2) if self.readout == "mean" else sequence[..., 0, :]
        return self.output(vector)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return probabilities (..., classes) of images (..., height, width)."""
        return torch.softmax(self.logits(images), -1)
