"""Adam on the Stiefel manifold, as an optimizer of torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.nn.utils.parametrize import is_parametrized

from vpintegrator.arguments import positive
from vpintegrator.errors import InputError
from vpintegrator.nn.cayley import cayley
from vpintegrator.nn.scores import Heads, orthonormality_error

_TOLERANCE = 1e-3  # of rows that are to be orthonormal, also in single precision


class StiefelAdam(torch.optim.Optimizer):
    r"""Adam for weights W (..., n, m), n <= m, with orthonormal rows: they stay orthonormal.

    With :math:`Y = W^T` on the Stiefel manifold and a section :math:`\lambda`, an orthogonal matrix
    (m, m) whose first n columns are Y, a step is

    .. math:: \Delta = \nabla L - Y (\nabla L)^T Y, \qquad
        \Omega = P \Delta Y^T - Y \Delta^T P, \quad P = I - \tfrac{1}{2} Y Y^T,

    .. math:: B = \lambda^T \Omega \lambda = \begin{pmatrix} A & -C^T \\ C & 0 \end{pmatrix},
        \qquad \lambda \leftarrow \lambda \operatorname{Cay}(-\eta\, \hat{B}_1 /
        (\sqrt{\hat{B}_2} + \epsilon)), \qquad
        \operatorname{Cay}(X) = (I - X/2)^{-1} (I + X/2),

    where the moments :math:`\hat{B}_1, \hat{B}_2` of B are those of Adam, entry by entry. All B
    are in one vector space, the horizontal part of the Lie algebra, so their moments need no
    transport. The new weight is the transpose of the first n columns of :math:`\lambda`.

    Parameters
    ----------
    params : iterable
        Weights with orthonormal rows, such as those of ``vpintegrator.nn.MultiHeadAttention`` as it
        is built, or groups of them, as for other optimizers of torch. Other weights of a network
        have an optimizer of their own.
    lr : float
        Step :math:`\eta`.
    betas : tuple of float
        Decay of the moments.
    eps : float
        Term :math:`\epsilon` of the denominator.

    Raises
    ------
    InputError
        If a weight has more rows than columns, or rows that are not orthonormal.

    References
    ----------
    Brantner, Generalizing Adam to manifolds for efficiently training transformers,
    arXiv 2305.16901.

    Examples
    --------
    The two leading eigenvectors of a symmetric matrix span the rows of least
    :math:`-\operatorname{tr}(W A W^T)`:

    >>> import torch, vpintegrator as vp
    >>> A = torch.diag(torch.tensor([3.0, 2.0, 1.0], dtype=torch.float64))
    >>> W = torch.nn.Parameter(torch.tensor([[0.6, 0.0, 0.8], [0.0, 1.0, 0.0]]).double())
    >>> optimizer = vp.training.StiefelAdam([W], lr=0.02)
    >>> for _ in range(300):
    ...     optimizer.zero_grad()
    ...     loss = -(W @ A @ W.mT).trace()
    ...     loss.backward()
    ...     optimizer.step()
    >>> round(loss.item(), 3), vp.nn.orthonormality_error(W) < 1e-14
    (-5.0, True)
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        defaults = {"lr": positive("lr", lr), "betas": betas, "eps": positive("eps", eps)}
        super().__init__(params, defaults)
        for group in self.param_groups:
            for weight in group["params"]:
                _check_orthonormal(weight)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Do one step, and return the loss that a closure gives."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._move(weight, group["lr"], group["betas"], group["eps"])
        return loss

    def _move(
        self, weight: torch.Tensor, rate: float, betas: tuple[float, float], eps: float
    ) -> None:
        state = self.state[weight]
        n = weight.shape[-2]
        if not state:
            state["step"] = 0
            state["section"] = section(weight)  # (..., m, m)
            for moment in ("first", "second"):
                state[moment] = torch.zeros_like(weight).mT.contiguous()  # (..., m, n)
        elif not torch.equal(state["section"][..., :n].mT, weight):  # weights of another origin
            _check_orthonormal(weight)
            state["section"] = section(weight)
        state["step"] += 1
        frame = state["section"]
        B = horizontal(weight, weight.grad, frame)  # type: ignore[arg-type]
        for moment, beta, power in zip(("first", "second"), betas, (B, B * B), strict=True):
            state[moment].mul_(beta).add_(power, alpha=1 - beta)
        first, second = (
            state[moment] / (1 - beta ** state["step"])
            for moment, beta in zip(("first", "second"), betas, strict=True)
        )
        columns = -rate * first / (second.sqrt() + eps)  # (..., m, n)
        # Cay(X) is cayley(-X/2); one Newton step removes what rounding adds up
        frame = frame @ cayley(-0.5 * skew_of_columns(columns))  # (..., m, m)
        one = torch.eye(frame.shape[-1], dtype=frame.dtype, device=frame.device)
        frame = 0.5 * frame @ (3 * one - frame.mT @ frame)  # (..., m, m)
        state["section"] = frame
        weight.copy_(frame[..., :n].mT)


def section(weight: torch.Tensor) -> torch.Tensor:
    """Return orthogonal matrices (..., m, m) whose first columns are the rows of W (..., n, m)."""
    Q = torch.linalg.qr(weight.mT, mode="complete").Q  # (..., m, m)
    return torch.cat([weight.mT, Q[..., weight.shape[-2] :]], -1)


def horizontal(weight: torch.Tensor, gradient: torch.Tensor, frame: torch.Tensor) -> torch.Tensor:
    """Return the first n columns (..., m, n) of B for a weight and the gradient by it (..., n, m).

    In the frame of the section Y is the first n columns of the identity. There A is the difference
    of the first n rows of the gradient and their transpose, and C holds its other rows.
    """
    G = frame.mT @ gradient.mT  # (..., m, n)
    n = weight.shape[-2]
    top = G[..., :n, :]  # (..., n, n)
    return torch.cat([top - top.mT, G[..., n:, :]], -2)


def skew_of_columns(columns: torch.Tensor) -> torch.Tensor:
    """Return the skew-symmetric matrices (..., m, m) with the blocks A and C of (..., m, n)."""
    m, n = columns.shape[-2:]
    A = columns[..., :n, :]
    C = columns[..., n:, :]
    zero = columns.new_zeros(*columns.shape[:-2], m - n, m - n)
    return torch.cat([torch.cat([A, -C.mT], -1), torch.cat([C, zero], -1)], -2)


def projections(model: torch.nn.Module) -> list[Heads]:
    """Return the trained projections of a network that are orthonormal at first, but not kept so.

    Examples
    --------
    >>> from vpintegrator.training.stiefel_adam import projections
    >>> len(projections(vp.nn.MultiHeadAttention(4, 2)))  # of queries, keys and values
    3
    """
    heads = [each for each in model.modules() if isinstance(each, Heads) and each.orthonormal]
    free = [each for each in heads if not is_parametrized(each, "weight")]
    return [each for each in free if each.weight.requires_grad]


def check_projections(model: torch.nn.Module, name: str) -> None:
    """Raise InputError unless a network has projections for Adam on the Stiefel manifold.

    Parameters
    ----------
    model
        The network.
    name
        Its name in messages.
    """
    heads = projections(model)
    if any(isinstance(each, Heads) and is_parametrized(each, "weight") for each in model.modules()):
        raise InputError(
            f"the projections of {name} are computed from free weights already (stiefel = true), "
            "and stiefel-adam needs their own; leave out stiefel, or use adam"
        )
    if not heads:
        raise InputError(
            f"{name} has no projections that are orthonormal at first, for which stiefel-adam is; "
            "use adam, or a model with multihead attention by projections, such as transformer"
        )
    error = max(orthonormality_error(each.weight) for each in heads)
    if not error < _TOLERANCE:
        raise InputError(
            f"the projections of {name} are no longer orthonormal (by {error:.1e}), after training "
            "by another optimizer; use adam, or an untrained model"
        )


def _check_orthonormal(weight: torch.Tensor) -> None:
    """Raise InputError unless the rows of a weight are orthonormal."""
    shape = tuple(weight.shape)
    if weight.ndim < 2 or shape[-2] > shape[-1]:
        raise InputError(
            f"a weight of shape {shape} cannot have orthonormal rows; StiefelAdam trains matrices "
            "with at most as many rows as columns, and other weights need another optimizer"
        )
    error = orthonormality_error(weight.detach())
    if not error < _TOLERANCE:
        raise InputError(
            f"the rows of a weight of shape {shape} are not orthonormal (by {error:.1e}); begin "
            "with torch.nn.init.orthogonal_"
        )
