"""A transformer that classifies images: the one model here that is no integrator."""

from __future__ import annotations

import torch
from torch import nn

from vpintegrator.models.arguments import checked_arguments
from vpintegrator.nn.checks import as_dtype, divisible, last_size, one_of, positive
from vpintegrator.nn.composition import Composition
from vpintegrator.nn.encoder import Norm
from vpintegrator.nn.feed_forward import ResidualLayer
from vpintegrator.nn.multihead import MultiHeadAttention


def image_patches(images: torch.Tensor, patch: int) -> torch.Tensor:
    """Cut images (..., height, width) into square patches, row by row of patches.

    Returns
    -------
    Tensor, (..., number of patches, patch * patch)
        The sequence that a transformer reads.

    Raises
    ------
    InputError
        If height or width is not divisible by patch.
    """
    rows = divisible("height", images.shape[-2], "patch", patch)
    columns = divisible("width", images.shape[-1], "patch", patch)
    cut = images.unflatten(-1, (columns, patch)).unflatten(-3, (rows, patch))
    return cut.transpose(-2, -3).flatten(-2).flatten(-3, -2)


class ClassificationTransformer(nn.Module):
    """Images cut into patches, ``depth`` units of attention and residual layer, softmax read-out.

    Parameters
    ----------
    height, width, patch : int
        Size of an image and of its square patches; patches must fill the image.
    classes : int
    depth : int
        Number of units: multihead attention, then a residual layer.
    heads : int
        Must divide the components inside.
    inside : int, optional
        Components of the vectors inside; by default patch * patch, without an embedding.
    residual : bool
        Add the input of each attention to its output.
    positions : bool
        Add a learned vector per patch.
    stiefel : bool
        Keep the projections of the heads on the Stiefel manifold.
    norm : {"none", "layer", "batch"}
        Normalise after each attention and each residual layer.
    readout : {"mean", "first"}
        Classify the mean over the sequence, or its first vector.
    activation : str

    Raises
    ------
    InputError
        If patches do not fill the image or heads do not divide the width.

    References
    ----------
    Dosovitskiy et al., arXiv 2010.11929; with Stiefel weights: Brantner, arXiv 2305.16901.
    """

    volume_preserving = False

    @checked_arguments
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
        norm: str = "none",
        readout: str = "mean",
        activation: str = "tanh",
        dtype: torch.dtype | str = torch.float64,
    ) -> None:
        super().__init__()
        dtype = as_dtype(dtype)
        self.height, self.width, self.patch = height, width, patch
        length = divisible("height", height, "patch", patch) * divisible(
            "width", width, "patch", patch
        )
        self.readout = one_of("readout", readout, ["mean", "first"])
        inside_ = patch * patch if inside is None else positive("inside", inside)
        self.embedding = None if inside is None else nn.Linear(patch * patch, inside_, dtype=dtype)
        self.positions = (
            nn.Parameter(1e-2 * torch.randn(length, inside_, dtype=dtype)) if positions else None
        )
        layers: list[nn.Module] = []
        for _ in range(positive("depth", depth)):
            layers += [
                MultiHeadAttention(inside_, heads, residual=residual, stiefel=stiefel, dtype=dtype),
                Norm(inside_, norm, dtype),
                ResidualLayer(inside_, activation=activation, dtype=dtype),
                Norm(inside_, norm, dtype),
            ]
        self.layers = Composition(*layers)
        self.output = nn.Linear(inside_, positive("classes", classes), dtype=dtype)

    def logits(self, images: torch.Tensor) -> torch.Tensor:
        """Scores (..., classes) of images (..., height, width), for cross-entropy losses."""
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
        """Probabilities (..., classes) of images (..., height, width)."""
        return torch.softmax(self.logits(images), -1)
