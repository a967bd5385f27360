"""The function of one cluster that a shear applies to all of them, followed once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from vpintegrator.compiled.tracing import Trace, named_tensor, trace
from vpintegrator.nn.cluster_potential import ClusterPotential


@dataclass(frozen=True)
class ClusterFunction:
    """The gradient of a potential of one cluster, as a graph of scalar operations.

    Attributes
    ----------
    trace
        Trace from the components of a cluster to as many increments.
    size
        Components that it reads.
    values
        The weights that its graph has as parameters.
    trained
        Places among them of what is trained.
    parameters
        The trained parameters, in the order of these places.
    """

    trace: Trace
    size: int
    values: np.ndarray
    trained: tuple[int, ...]
    parameters: tuple[nn.Parameter, ...]

    @property
    def kind(self) -> Any:
        """Key that is equal for functions that differ only in their weights."""
        nodes = tuple(self.trace.graph.nodes)
        return nodes, tuple(self.trace.outputs), self.size, self.trained

    @property
    def outputs(self) -> int:
        """Components that it moves."""
        return len(self.trace.outputs)


class _OneCluster(nn.Module):
    """A potential's gradient in a form that can be followed: a window is a cluster."""

    def __init__(self, potential: nn.Module) -> None:
        super().__init__()
        self.potential = potential
        if type(potential) is ClusterPotential:  # others may do something else to states
            self.window, self.dim = potential.index.shape[1], potential.features.dimension
            self._gradient = potential.cluster_gradient
        else:
            self.window, self.dim = 1, int(potential.size)  # type: ignore[arg-type]
            self._gradient = potential.gradient  # type: ignore[assignment]
        tensors = [*potential.parameters(), *potential.buffers()]
        dtype = next((t.dtype for t in tensors if t.is_floating_point()), torch.float64)
        self.shift = torch.zeros(self.dim, dtype=dtype)
        self.scale = torch.ones(self.dim, dtype=dtype)

    def forward(self, window: torch.Tensor) -> torch.Tensor:
        return self._gradient(window)


def cluster_function(potential: nn.Module, frozen: bool) -> ClusterFunction:
    """Follow the gradient of a potential of one cluster.

    What data have set, buffers that are saved, are weights too, so that functions that are fitted
    to other data are of the same kind.

    Parameters
    ----------
    potential
        A ``ClusterPotential``; of any other potential the one cluster is all that it sees.
    frozen
        See ``tracing.trace``.

    Raises
    ------
    NotCompilable
        If it uses an operation that is not known, or is too large.
    """
    cluster: Any = _OneCluster(potential)
    saved = cluster.state_dict().keys()
    held = [n for n, b in cluster.named_buffers() if n in saved and b.is_floating_point()]
    traced = trace(cluster, frozen, held)
    trained: list[int] = []
    parameters: list[nn.Parameter] = []
    known = dict(cluster.named_parameters())
    first = 0
    for name in traced.weights:
        parameter, end = known.get(name), first + named_tensor(cluster, name).numel()
        if parameter is not None and parameter.requires_grad:
            trained += range(first, end)
            parameters.append(parameter)
        first = end
    size, values = cluster.window * cluster.dim, traced.values(cluster)
    return ClusterFunction(traced, size, values, tuple(trained), tuple(parameters))
