"""The architectures by their names on the command line."""

from __future__ import annotations

from vpintegrator.models.base import Integrator
from vpintegrator.models.residual_network import ResidualNetwork
from vpintegrator.models.standard_transformer import StandardTransformer
from vpintegrator.models.volume_preserving_feed_forward import VolumePreservingFeedForward
from vpintegrator.models.volume_preserving_multihead_transformer import (
    VolumePreservingMultiheadTransformer,
)
from vpintegrator.models.volume_preserving_transformer import VolumePreservingTransformer

ARCHITECTURES: dict[str, type[Integrator]] = {
    architecture.name: architecture
    for architecture in (
        VolumePreservingTransformer,
        VolumePreservingFeedForward,
        VolumePreservingMultiheadTransformer,
        StandardTransformer,
        ResidualNetwork,
    )
}
