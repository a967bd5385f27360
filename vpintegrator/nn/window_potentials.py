"""Potentials of a whole window, and symplectic attention: shears by their gradients."""

from __future__ import annotations

from typing import Any

import torch

from vpintegrator.arguments import one_of, whole
from vpintegrator.errors import InputError
from vpintegrator.nn.composition import Composition
from vpintegrator.nn.gradient_coupling import GradientShear
from vpintegrator.nn.layer import AttentionLayer, Device, Dtype, Layer, factory, last_size, on_cpu
from vpintegrator.nn.scores import BilinearScores
from vpintegrator.nn.symmetry import TOLERANCE, canonical_blocks, check_even, generated_group

HALVES = ("both", "positions", "momenta")


class AttentionPotential(Layer):
    r"""A function of a window whose gradient is softmax attention.

    With the correlations :math:`C = Q A Q^T` of the rows of Q (..., window, size), by the matrix
    softmax or by the vector softmax,

    .. math:: V(Q) = \log \sum_{t,s} \exp C_{ts} \qquad \text{or} \qquad
        V(Q) = \sum_s \log \sum_t \exp C_{ts},

    .. math:: \nabla V(Q) = W Q A^T + W^T Q A, \qquad W = \operatorname{softmax}(C),

    over all entries of C, or over each of its columns. The gradient is zero where A is.

    Parameters
    ----------
    size : int
        Components of each row of Q.
    normaliser : {"matrix", "vector"}
    weighting : {"symmetric", "arbitrary"}
        Kind of A.
    symmetries : sequence of (size, size), optional
        Signed permutations S of the components; :math:`A = S^T A S`, so that V is invariant.
    initial_scale : float
        Standard deviation of the initial entries of A.
    device, dtype
        As in layers of torch.nn.

    References
    ----------
    Brantner, Kraus, GeometricMachineLearning.jl, ``SymplecticAttention``. With the vector softmax
    and a symmetric A the formula of that package, :math:`2 W Q A` with one factor, is no gradient.

    Examples
    --------
    >>> V = vp.nn.AttentionPotential(2)
    >>> V.gradient(torch.zeros(5, 3, 2)).shape  # (..., window, size)
    torch.Size([5, 3, 2])
    """

    shown = ("size", "normaliser")

    def __init__(
        self,
        size: int,
        *,
        normaliser: str = "matrix",
        weighting: str = "symmetric",
        symmetries: Any = (),
        initial_scale: float = 1e-2,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(device=device, dtype=dtype)
        self.size = whole("size", size)
        self.normaliser = one_of("normaliser", normaliser, ["matrix", "vector"])
        self.scores = BilinearScores(
            size,
            one_of("weighting", weighting, ["symmetric", "arbitrary"]),
            symmetries=symmetries,
            initial_scale=initial_scale,
            **self.factory_kwargs,
        )

    def weights(self, Q: torch.Tensor) -> torch.Tensor:
        """Return W (..., window, window) of Q (..., window, size)."""
        C = self.scores(Q, Q)  # (..., window, window), rows t and columns s
        if self.normaliser == "vector":
            return torch.softmax(C, -2)
        return torch.softmax(C.flatten(-2), -1).view(C.shape)

    def gradient(self, Q: torch.Tensor) -> torch.Tensor:
        r"""Return :math:`\nabla V` at Q (..., window, size)."""
        W = self.weights(Q)
        A = self.scores.matrix()
        return W @ Q @ A.mT + W.mT @ Q @ A  # (..., window, size)


class LinearAttentionPotential(Layer):
    r"""A quadratic function of a window: the potential of linear symplectic attention.

    .. math:: V(Q) = \tfrac{1}{2} \sum_{t,s} A_{ts}\, q_t \cdot q_s, \qquad A = A^T,
        \qquad \nabla V(Q) = A Q

    Parameters
    ----------
    size, window : int
        Components of each row of Q, and rows.
    initial_scale : float
        Standard deviation of the initial entries of A.
    device, dtype
        As in layers of torch.nn.

    References
    ----------
    Brantner, Kraus, GeometricMachineLearning.jl, ``LinearSymplecticAttention``.

    Examples
    --------
    >>> V = vp.nn.LinearAttentionPotential(2, window=3, initial_scale=0.0)
    >>> V.gradient(torch.ones(3, 2))
    tensor([[0., 0.],
            [0., 0.],
            [0., 0.]], grad_fn=<MmBackward0>)
    """

    shown = ("size", "window")

    def __init__(
        self,
        size: int,
        window: int,
        *,
        initial_scale: float = 1e-2,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(device=device, dtype=dtype)
        self.size = whole("size", size)
        self.window = whole("window", window)
        self.weighting = BilinearScores(
            window, "symmetric", initial_scale=initial_scale, **self.factory_kwargs
        )

    def gradient(self, Q: torch.Tensor) -> torch.Tensor:
        r"""Return :math:`\nabla V` at Q (..., window, size)."""
        last_size("Q", Q, {"window": self.window, "size": self.size})
        return self.weighting.matrix() @ Q  # (..., window, size)


class SoftmaxSymplecticAttention(Composition, AttentionLayer):
    r"""Symplectic attention as published: shears of positions and momenta by softmax attention.

    .. math:: Q \mapsto Q + \nabla T(P), \qquad \text{then} \qquad P \mapsto P + \nabla V(Q)

    for windows Q, P (..., window, dim / 2) of positions and momenta, with ``AttentionPotential`` T
    and V. A shear by a gradient is symplectic, here for the form
    :math:`\sum_t dq_t \wedge dp_t` of the space of windows. So the volume of windows is kept, and
    the inverse is explicit.

    Parameters
    ----------
    dim : int
        Components of a state, even: positions first, then momenta.
    half : {"both", "positions", "momenta"}
        Components that move: both in turn, or one half by the other.
    normaliser : {"matrix", "vector"}
        Softmax over all entries of the correlations, or over each column.
    weighting : {"symmetric", "arbitrary"}
        Kind of the matrices A in the correlations.
    symmetries : sequence of (dim, dim), optional
        The layer commutes with the group they generate.
    initial_scale : float
        Standard deviation of the initial entries of A.
    device, dtype
        As in layers of torch.nn.

    Raises
    ------
    InputError
        If dim is odd, or the symmetries mix positions and momenta or do not keep the form.

    References
    ----------
    Brantner, Kraus, GeometricMachineLearning.jl, ``SymplecticAttention``.

    Examples
    --------
    >>> layer = vp.nn.SoftmaxSymplecticAttention(dim=4)
    >>> Z = torch.rand(5, 3, 4)
    >>> bool(torch.allclose(layer.inverse(layer(Z)), Z))
    True
    """

    identity_at_zero = True
    attention_part = "half"  # positions, momenta

    @on_cpu
    def __init__(
        self,
        dim: int,
        *,
        half: str = "both",
        normaliser: str = "matrix",
        weighting: str = "symmetric",
        symmetries: Any = (),
        initial_scale: float = 1e-2,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        check_even(whole("dim", dim))
        actions = canonical_blocks(generated_group(symmetries, dim))
        shears = []
        for moved in moved_halves(half):
            # positions move by a function of momenta, and momenta by one of positions
            action, _ = actions[1 if moved == "positions" else 0]
            potential = AttentionPotential(
                dim // 2,
                normaliser=normaliser,
                weighting=weighting,
                symmetries=action,
                initial_scale=initial_scale,
                **factory(device, dtype),
            )
            shears.append(GradientShear(potential, moved))
        super().__init__(*shears)
        self.dim = dim

    def attention_weights(self, X: torch.Tensor) -> torch.Tensor:
        """Return W (..., half, window, window) of the halves that move, of windows X, in order.

        W is that of ``AttentionPotential``, transposed: with the vector softmax rows sum to 1, with
        the matrix softmax all entries do.
        """
        result = []
        for shear in self:
            other: Any = shear
            result.append(other.potential.weights(other.read(X)).mT)  # (..., window, window)
            X = shear(X)
        return torch.stack(result, -3)


class LinearSymplecticAttention(Composition, AttentionLayer):
    r"""Linear symplectic attention: constant symmetric mixtures of time steps, as published.

    .. math:: Q \mapsto Q + A P, \qquad \text{then} \qquad P \mapsto P + B Q, \qquad
        A = A^T, \quad B = B^T

    for windows Q, P (..., window, dim / 2) of positions and momenta. Linear and symplectic for the
    form :math:`\sum_t dq_t \wedge dp_t` of the space of windows.

    Parameters
    ----------
    dim : int
        Components of a state, even: positions first, then momenta.
    window : int
        Time steps of a window.
    half : {"both", "positions", "momenta"}
        Components that move: both in turn, or one half by the other.
    symmetries : sequence of orthogonal (dim, dim), optional
        The layer commutes with the group they generate.
    initial_scale : float
        Standard deviation of the initial entries of A and B.
    device, dtype
        As in layers of torch.nn.

    Raises
    ------
    InputError
        If dim is odd, or the symmetries mix positions and momenta, do not keep the form, or are not
        orthogonal.

    References
    ----------
    Brantner, Kraus, GeometricMachineLearning.jl, ``LinearSymplecticAttention``.

    Examples
    --------
    >>> layer = vp.nn.LinearSymplecticAttention(dim=4, window=3)
    >>> Z = torch.rand(5, 3, 4)
    >>> bool(torch.allclose(layer.inverse(layer(Z)), Z))
    True
    """

    identity_at_zero = True

    @on_cpu
    def __init__(
        self,
        dim: int,
        window: int,
        *,
        half: str = "both",
        symmetries: Any = (),
        initial_scale: float = 1e-2,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        check_even(whole("dim", dim))
        group = generated_group(symmetries, dim)
        canonical_blocks(group)  # refuses a group that mixes q and p
        one = torch.eye(dim, dtype=group.dtype)
        if bool((group.mT @ group - one).abs().max() > TOLERANCE):
            raise InputError(
                "linear symplectic attention respects orthogonal symmetries alone; give fewer "
                "symmetries"
            )
        options: Any = {"initial_scale": initial_scale, **factory(device, dtype)}
        super().__init__(
            *(
                GradientShear(LinearAttentionPotential(dim // 2, window, **options), moved)
                for moved in moved_halves(half)
            )
        )
        self.dim = dim
        self.window = window


def moved_halves(half: str) -> list[str]:
    """Return the halves of states (q, p) that move, in order, by the argument ``half``."""
    return ["positions", "momenta"] if one_of("half", half, HALVES) == "both" else [half]
