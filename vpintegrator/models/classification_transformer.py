"""A transformer that classifies images: the one model here that is no integrator."""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn

from vpintegrator.arguments import divisible, of_kind, one_of, whole
from vpintegrator.errors import InputError
from vpintegrator.nn import Composition, MultiHeadAttention, ResidualLayer
from vpintegrator.nn.feed_forward import Norm
from vpintegrator.nn.layer import as_dtype, default_dtype, last_size


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
        self.height, self.width, self.patch, self.readout = height, width, patch, readout
        length = divisible("height", height, "patch", patch)
        length *= divisible("width", width, "patch", patch)
        size = patch * patch if inside is None else whole("inside", inside)
        self.embedding = None
        if inside is not None:
            self.embedding = nn.Linear(patch * patch, inside, dtype=torch.float64)
        self.positions = None
        if positions:
            vectors = 1e-2 * torch.randn(length, size, dtype=torch.float64)
            self.positions = nn.Parameter(vectors)
        layers: list[nn.Module] = []
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
        sequence = image_patches(images, self.patch)
        if self.embedding is not None:
            sequence = self.embedding(sequence)
        if self.positions is not None:
            sequence = sequence + self.positions
        sequence = self.layers(sequence)
        vector = sequence.mean(-2) if self.readout == "mean" else sequence[..., 0, :]
        return self.output(vector)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return probabilities (..., classes) of images (..., height, width)."""
        return torch.softmax(self.logits(images), -1)
