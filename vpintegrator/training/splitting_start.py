"""Where symplectic polynomials begin: as a classical splitting of the system, which they improve.

With H = T(p) + V(q), a model whose couplings are shears by h/s grad T and h/s grad V, s of each in
a step of h, is Stoermer-Verlet with steps of h/s: near the flow already, and near enough for least
squares to find the rest, where from the identity they may stall in a valley of errors of order one.
The gradients are fitted to the system's vector field at the training states, or where its equations
are not known to differences of the states.
"""

from __future__ import annotations

import math

import torch
from torch import nn

from vpintegrator.models import Integrator
from vpintegrator.nn.cluster_potential import PotentialSum
from vpintegrator.nn.gradient_coupling import GradientCoupling, gradient
from vpintegrator.nn.reversible import Reversible
from vpintegrator.training.residuals import relative_error_of
from vpintegrator.training.training_data import TrainingData

_NUMBERS, _STATES = 16_000, 200  # of all components together, and of states at least
_LEAST_SINGULAR_VALUE = 1e-11  # of the largest: smaller ones only carry rounding
_FITTED = 1e-5  # relative misfit from which on clusters of more bodies are left alone


def begin_as_splitting(model: Integrator, data: TrainingData) -> float:
    """Give a model the weights of a splitting, if it has no better ones.

    Parameters
    ----------
    model
        Normalised. Attention is at rest where there is any.
    data
        What it is to be trained on.

    Returns
    -------
    float
        How far the fitted vector field is from that of the data, relatively; infinite where the
        model is left as it is: it is no stack of couplings by polynomials, or errs less already.
    """
    couplings = [layer for layer in model.core.modules() if isinstance(layer, GradientCoupling)]
    if not couplings or not all(layer.polynomial for layer in couplings):
        return math.inf
    generator = torch.Generator().manual_seed(0)
    count = max(_STATES, _NUMBERS // model.dim)
    inputs, targets = data.pairs(model).sample(count, generator)
    if not bool(torch.isfinite(inputs).all() and torch.isfinite(targets).all()):
        return math.inf
    before = relative_error_of(model, [(inputs, targets)])
    own = {name: value.clone() for name, value in model.state_dict().items()}
    z, velocity = _velocities(model, data, inputs[:, -1], targets[:, -1])
    (q, p), (dq, dp) = z.chunk(2, -1), velocity.chunk(2, -1)
    kinetic, misfit_q = _fitted(couplings[0].kinetic, p, dq)
    potential, misfit_p = _fitted(couplings[0].potential, q, -dp)
    with torch.no_grad():
        shares = _shares(len(couplings), isinstance(model.core, Reversible))
        for layer, share in zip(couplings, shares, strict=True):
            for part, values, h in zip(
                (layer.kinetic, layer.potential), (kinetic, potential), share, strict=True
            ):
                for parameter, value in zip(part.parameters(), values, strict=True):
                    parameter.copy_(h * value)
    if not relative_error_of(model, [(inputs, targets)]) < before:
        model.load_state_dict(own)
        return math.inf
    misfit = math.hypot(misfit_q, misfit_p)
    model.choices.append(
        f"training begins with the system's own splitting, fitted to {misfit:.0e} of its forces"
    )
    return misfit


def _shares(depth: int, reversible: bool) -> list[tuple[float, float]]:
    """Of a step, what each coupling's drift and kick are of.

    Reversible, psi R psi^-1 R is kick, drift, ..., kick with the first drift twice in the middle,
    so these make 2 depth - 1 equal steps of Stoermer-Verlet, with half kicks at the ends.
    """
    if not reversible:
        return [(1 / depth, 1 / depth)] * depth
    h = 1 / (2 * depth - 1)
    return [(h if layer else h / 2, h if layer < depth - 1 else h / 2) for layer in range(depth)]


def _velocities(
    model: Integrator, data: TrainingData, before: torch.Tensor, after: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Normalised states, and how far the vector field there moves them in a call of the model."""
    system = data.dataset.system
    before, after = before.cpu().double(), after.cpu().double()
    if system.is_measured:
        states, moved = (before + after) / 2, after - before
    else:
        states = before
        time = model.prediction_window * data.dataset.step
        moved = time * torch.from_numpy(system.vector_field(states.numpy()))
    return model.normalised(states), model.normalised_rates(states, moved)


def _fitted(
    potential: nn.Module, x: torch.Tensor, wanted: torch.Tensor
) -> tuple[list[torch.Tensor], float]:
    """Parameters whose gradient at x (state, size) is what is wanted, and how far it is off.

    Clusters of fewer bodies come first: those of more are left at zero where these suffice.
    """
    parts = potential.potentials if isinstance(potential, PotentialSum) else [potential]
    columns: list[torch.Tensor] = []
    misfit, size = 1.0, wanted.norm()
    solution = torch.zeros(0, dtype=torch.float64)
    for part in parts:
        columns.append(_columns(part, x))
        if misfit > _FITTED:
            matrix = torch.cat(columns, 1)
            lengths = matrix.norm(dim=0).clamp_min(1e-300)
            solution = torch.linalg.lstsq(
                matrix / lengths, wanted.reshape(-1, 1), rcond=_LEAST_SINGULAR_VALUE, driver="gelsd"
            ).solution[:, 0]
            misfit = float((matrix / lengths @ solution - wanted.flatten()).norm() / size)
            solution = solution / lengths
    solution = torch.cat([solution, solution.new_zeros(sum(c.shape[1] for c in columns))])
    found = []
    for parameter in potential.parameters():
        found.append(solution[: parameter.numel()].view_as(parameter))
        solution = solution[parameter.numel() :]
    return found, misfit


def _columns(potential: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """The gradient at x, linear in the parameters, for each alone (component, parameter)."""
    own = [parameter.detach().clone() for parameter in potential.parameters()]
    columns = []
    with torch.no_grad():
        for parameter in potential.parameters():
            parameter.zero_()
        for parameter in potential.parameters():
            flat = parameter.view(-1)
            for n in range(len(flat)):
                flat[n] = 1.0
                columns.append(gradient(potential, x.to(flat)).double().flatten())
                flat[n] = 0.0
        for parameter, value in zip(potential.parameters(), own, strict=True):
            parameter.copy_(value)
    return torch.stack(columns, 1)
