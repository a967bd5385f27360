"""Hamiltonian neural network, trained on pairs and stepped by the implicit midpoint rule."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import torch
from torch import nn

from vpintegrator.baselines.base import GeneratingBaseline

_WIDTH = 64  # units of each of two hidden layers
_ITERATIONS = 2_000  # steps of Adam, as in the reference
_BATCH = 512  # pairs of a step
_RATE = 3e-3  # learning rate at the start; it falls to zero as a cosine


class HamiltonianNetwork(GeneratingBaseline):
    """A neural network H(q, p), trained on the residual of the implicit midpoint rule.

    The loss is the mean square of (z' - z)/h - J grad H((z + z')/2). Angles enter as sine and
    cosine. A step solves the midpoint rule, so the map is symplectic.

    References
    ----------
    Greydanus, Dzamba, Yosinski, Hamiltonian Neural Networks, NeurIPS 2019.
    """

    name = "Hamiltonian network"

    def gradient(
        self,
        middle: torch.Tensor,
        slopes: torch.Tensor,
        periods: Mapping[int, float],
        end: float,
        seed: int,
    ) -> Callable[[torch.Tensor], torch.Tensor]:
        """Return the gradient of step times Hamiltonian."""
        generator = torch.Generator().manual_seed(seed)
        network = _Network(middle.shape[1], periods, float(slopes.square().mean().sqrt()) or 1.0)
        for parameter in network.parameters():  # no global random numbers
            bound = parameter.shape[-1] ** -0.5
            nn.init.uniform_(parameter, -bound, bound, generator=generator)
        optimizer = torch.optim.Adam(network.parameters(), lr=_RATE)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, _ITERATIONS)
        for _ in range(_ITERATIONS):
            places = torch.randint(len(middle), (min(_BATCH, len(middle)),), generator=generator)
            x = middle[places].requires_grad_()
            (found,) = torch.autograd.grad(network(x).sum(), x, create_graph=True)
            loss = ((found - slopes[places]) / network.size).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            if time.perf_counter() > end:
                break
        network.requires_grad_(False)
        return torch.func.vmap(torch.func.grad(lambda x: network(x).squeeze()))


class _Network(nn.Module):
    """H in units of the typical slope."""

    def __init__(self, dim: int, periods: Mapping[int, float], size: float) -> None:
        super().__init__()
        self.angles = {k: 2 * torch.pi / period for k, period in periods.items()}
        self.plain = [k for k in range(dim) if k not in periods]
        self.size = size
        layers: list[nn.Module] = []
        read = len(self.plain) + 2 * len(self.angles)
        for into, out in ((read, _WIDTH), (_WIDTH, _WIDTH), (_WIDTH, 1)):
            layers += [nn.Linear(into, out, dtype=torch.float64), nn.Tanh()]
        self.layers = nn.Sequential(*layers[:-1])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = [x[..., self.plain]]
        for k, unit in self.angles.items():
            angle = unit * x[..., k : k + 1]
            parts += [angle.sin(), angle.cos()]
        return self.size * self.layers(torch.cat(parts, -1))
