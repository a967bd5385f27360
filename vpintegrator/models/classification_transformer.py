"""A transformer that classifies images: the one model here that is no integrator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from vpintegrator.arguments import divisible, of_kind
from vpintegrator.errors import InputError
from vpintegrator.models.declaration import Arguments as _Arguments
from vpintegrator.models.declaration import argument, show_arguments
from vpintegrator.nn import Composition, MultiHeadAttention, ResidualLayer
from vpintegrator.nn.encoder import NORMS, Norm
from vpintegrator.nn.layer import default_dtype
from vpintegrator.nn.tensor_arguments import as_dtype, last_size


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


@show_arguments
class ClassificationTransformer(nn.Module):
    """Images cut into patches, ``depth`` units of attention and residual layer, softmax read-out.

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

    @dataclass(frozen=True, kw_only=True)
    class Arguments(_Arguments):
        """See the class."""

        height: int = argument(help="Of an image.")
        width: int = argument(help="Of an image.")
        patch: int = argument(help="Size of its square patches, which must fill the image.")
        classes: int = argument(help="How many there are.", least=1)
        depth: int = argument(
            2, "Number of units: multihead attention, then a residual layer.", least=1
        )
        heads: int = argument(2, "Must divide the components inside.")
        inside: int | None = argument(
            None,
            "Components of the vectors inside; by default patch * patch, without an embedding.",
            least=1,
        )
        residual: bool = argument(True, "Add the input of each attention to its output.")
        positions: bool = argument(True, "Add a learned vector per patch.")
        stiefel: bool = argument(
            False, "Keep the projections of the heads on the Stiefel manifold."
        )
        norm: str = argument(
            "none", "Normalise after each attention and each residual layer.", choices=NORMS
        )
        readout: str = argument(
            "mean",
            "Classify the mean over the sequence, or its first vector.",
            choices=["mean", "first"],
        )
        activation: str = argument("tanh", "Of the residual layers.")
        dtype: Any = argument("float64", "Weights are drawn in float64.", kind="torch.dtype or str")

    def __init__(self, **arguments: Any) -> None:
        super().__init__()
        a = self.Arguments.given(type(self).__name__, arguments)
        self.height, self.width, self.patch, self.readout = a.height, a.width, a.patch, a.readout
        length = divisible("height", a.height, "patch", a.patch)
        length *= divisible("width", a.width, "patch", a.patch)
        size = a.patch * a.patch
        inside = size if a.inside is None else a.inside
        self.embedding = None if a.inside is None else nn.Linear(size, inside, dtype=torch.float64)
        self.positions = None
        if a.positions:
            vectors = 1e-2 * torch.randn(length, inside, dtype=torch.float64)
            self.positions = nn.Parameter(vectors)
        layers: list[nn.Module] = []
        for _ in range(a.depth):
            with default_dtype(torch.float64):
                layers += [
                    MultiHeadAttention(inside, a.heads, residual=a.residual, stiefel=a.stiefel),
                    Norm(inside, a.norm),
                    ResidualLayer(inside, activation=a.activation),
                    Norm(inside, a.norm),
                ]
        self.layers = Composition(*layers)
        self.output = nn.Linear(inside, a.classes, dtype=torch.float64)
        self.to(as_dtype(a.dtype))

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
