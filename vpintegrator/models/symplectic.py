"""Symplectic models of states (q, p): gradient couplings, and attention before them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import torch
from torch import nn

from vpintegrator.arguments import whole
from vpintegrator.errors import InputError
from vpintegrator.models.components import Components, Functions
from vpintegrator.models.model import Model
from vpintegrator.models.stored import Matrices, Periods
from vpintegrator.nn import (
    BasisPotential,
    Composition,
    LinearSymplecticAttention,
    SoftmaxSymplecticAttention,
    SymplecticAttention,
)
from vpintegrator.nn.formulas import Formulas
from vpintegrator.nn.gradient_coupling import (
    ComponentPotential,
    GradientCoupling,
    HenonMap,
    NeuronPotential,
    QuadraticPotential,
)
from vpintegrator.nn.layer import default_dtype
from vpintegrator.nn.symmetry import SignedGroup, canonical_blocks, check_even


class SymplecticFeedForward(Model):
    r"""A one-step map of states (q, p) made of gradient couplings, or of published layers.

    .. math:: \psi = F_L \circ \cdots \circ F_1, \qquad D\psi^T J\, D\psi = J

    Exactly symplectic and explicitly invertible; with reversing symmetries also reversible. The
    published networks ``sympnet-g``, ``sympnet-la`` and ``henonnet`` are models of their own.

    Parameters
    ----------
    dim
        Components of a state: positions, then momenta, then those that layers read alone.
    depth
        Number of units.
    width
        Hidden units of each coupling.
    functions
        Functions in the couplings: a hidden layer, or polynomials, see
        ``VolumePreservingFeedForward``.
    degree, expressions
        As in ``VolumePreservingFeedForward``.
    layer
        Gradient couplings (with neurons a G-SympNet), the linear and activation modules of an
        LA-SympNet, or the Henon maps of a HenonNet. The latter two as published, without angles or
        symmetries between degrees of freedom.
    linear
        Linear pairs in a unit of the linear and activation modules.
    activation
        Activation of hidden layers.
    initial_scale
        Size of the initial gradients.
    reversing_symmetries, periodic, cyclic
        As in ``VolumePreservingFeedForward``.
    conserved, explicit_time, parameters, vanishing, dtype
        As in ``VolumePreservingFeedForward``.

    Raises
    ------
    InputError
        For sizes that do not fit, or symmetries that do not keep the symplectic form or mix
        positions and momenta.

    References
    ----------
    Jin, Zhang, Zhu, Tang, Karniadakis, SympNets, arXiv 2001.03750; Burby, Tang, Maulik,
    arXiv 2007.04496.

    Examples
    --------
    >>> import torch, vpintegrator as vp
    >>> model = vp.models.SymplecticFeedForward(dim=4, functions="polynomial", degree=4)
    >>> z = torch.rand(4, dtype=torch.float64)
    >>> D = torch.func.jacrev(lambda z: model(z[None])[0])(z)
    >>> J = vp.nn.canonical_form(4)
    >>> bool((D.mT @ J @ D - J).abs().max() < 1e-14)
    True
    """

    name = "spff"
    reads_equations = True
    canonical = True

    @default_dtype(torch.float64)
    def __init__(
        self,
        dim: int,
        *,
        depth: int = 3,
        width: int = 16,
        functions: Literal["neurons", "polynomial"] = "neurons",
        degree: int = 6,
        expressions: Sequence[str] = (),
        layer: Literal["gradient", "linear-activation", "henon"] = "gradient",
        linear: int = 2,
        activation: str = "tanh",
        initial_scale: float = 1e-2,
        reversing_symmetries: Matrices = (),
        periodic: Periods = (),
        cyclic: Sequence[int] = (),
        conserved: Sequence[int] = (),
        explicit_time: bool = False,
        parameters: int = 0,
        vanishing: Sequence[int] = (),
        dtype: str | torch.dtype = "float64",
    ) -> None:
        read = conserved, explicit_time, parameters, vanishing
        components = Components(dim, reversing_symmetries, periodic, cyclic, *read)
        profile = Functions(functions, width, degree, expressions, activation, initial_scale)
        layers = [
            _symplectic_layer(components, profile, layer, linear)
            for _ in range(whole("depth", depth))
        ]
        super().__init__(Composition(*layers), components, dtype=dtype)


class SymplecticTransformer(Model):
    r"""``depth`` units of symplectic attention and of a symplectic feed-forward layer.

    .. math:: \psi = F_L \circ A_L \circ \cdots \circ F_1 \circ A_1

    with attention :math:`A_l` over the window and gradient couplings :math:`F_l` of every state.
    The map of whole windows keeps the form :math:`\sum_t dq_t \wedge dp_t`, summed over the time
    steps, exactly, and is explicitly invertible; with reversing symmetries it is also reversible.
    That is a law of the space of windows: what it does to phase space, rollouts measure.

    Parameters
    ----------
    dim
        Components of a state, even: positions, then momenta.
    window, prediction_window, depth
        As in ``VolumePreservingTransformer``.
    width
        Hidden units of each coupling.
    functions
        Functions in the couplings: a hidden layer, or polynomials, see
        ``VolumePreservingFeedForward``.
    degree, expressions
        As in ``VolumePreservingFeedForward``.
    layer, linear
        As in ``SymplecticFeedForward``.
    attention
        Rotations of each pair (q, p) in time (``SymplecticAttention``); or, as published, shears by
        the gradient of a softmax (``SoftmaxSymplecticAttention``) or by constant mixtures of the
        time steps (``LinearSymplecticAttention``). A unit of shears moves positions by attention,
        then all by a feed-forward layer, then momenta by attention, and all by another layer.
    normaliser
        Softmax over all entries of the correlations ("matrix"), or over each column ("vector"); for
        attention = softmax.
    weighting
        Matrices of the correlations, for attention = softmax.
    activation
        Activation of hidden layers.
    initial_scale
        Size of the initial gradients, and of attention.
    reversing_symmetries, periodic, cyclic, dtype
        As in ``VolumePreservingFeedForward``.

    Raises
    ------
    InputError
        For sizes that do not fit, or symmetries that do not keep the symplectic form or mix
        positions and momenta.

    References
    ----------
    Brantner, Kraus, GeometricMachineLearning.jl, ``SymplecticTransformer`` and
    ``LinearSymplecticTransformer``. The rotations are new here.

    Examples
    --------
    >>> model = vp.models.SymplecticTransformer(dim=4, window=3, depth=1)
    >>> Z = torch.rand(5, 3, 4, dtype=torch.float64)
    >>> model.structure.is_symplectic, bool(torch.allclose(model.inverse(model(Z)), Z))
    (True, True)
    """

    name = "spt"
    reads_equations = True
    canonical = True

    @default_dtype(torch.float64)
    def __init__(
        self,
        dim: int,
        *,
        window: int = 3,
        prediction_window: int | None = None,
        depth: int = 2,
        width: int = 16,
        functions: Literal["neurons", "polynomial"] = "neurons",
        degree: int = 6,
        expressions: Sequence[str] = (),
        layer: Literal["gradient", "linear-activation", "henon"] = "gradient",
        linear: int = 2,
        attention: Literal["rotations", "softmax", "linear"] = "rotations",
        normaliser: Literal["matrix", "vector"] = "matrix",
        weighting: Literal["symmetric", "arbitrary"] = "symmetric",
        activation: str = "tanh",
        initial_scale: float = 1e-2,
        reversing_symmetries: Matrices = (),
        periodic: Periods = (),
        cyclic: Sequence[int] = (),
        dtype: str | torch.dtype = "float64",
    ) -> None:
        components = Components(dim, reversing_symmetries, periodic, cyclic)
        whole("window", window, 2)
        profile = Functions(functions, width, degree, expressions, activation, initial_scale)
        if attention != "softmax" and (normaliser, weighting) != ("matrix", "symmetric"):
            raise InputError("normaliser and weighting are for attention = softmax")
        shared: dict[str, Any] = {"symmetries": components.group, "initial_scale": initial_scale}

        def mixing(half: str) -> nn.Module:
            """Return attention that moves positions, or momenta, or both."""
            if attention == "rotations":
                return SymplecticAttention(dim, **shared)
            if attention == "linear":
                return LinearSymplecticAttention(dim, window, half=half, **shared)
            return SoftmaxSymplecticAttention(
                dim, half=half, normaliser=normaliser, weighting=weighting, **shared
            )

        halves = ["both"] if attention == "rotations" else ["positions", "momenta"]
        layers: list[nn.Module] = []
        for _ in range(whole("depth", depth)):
            for half in halves:
                layers += [mixing(half), _symplectic_layer(components, profile, layer, linear)]
        super().__init__(Composition(*layers), components, window, prediction_window, dtype=dtype)

    @classmethod
    def published(
        cls,
        dim: int,
        *,
        window: int = 3,
        attention: Literal["softmax", "linear"] = "softmax",
        dtype: str | torch.dtype = "float32",
    ) -> Self:
        """Make the symplectic transformer of GeometricMachineLearning.jl, with its defaults.

        One unit: attention of positions, a gradient layer of both halves with twice as many neurons
        as components, attention of momenta, and another gradient layer; tanh, in single precision.
        The initial weights are small, so that the map starts near the identity.

        Parameters
        ----------
        dim
            Components of a state, even.
        window
            Time steps read and predicted.
        attention
            Gradients of a softmax of the whole matrix of correlations, or linear attention.
        dtype
            Type of the weights.

        Examples
        --------
        >>> model = vp.models.SymplecticTransformer.published(4)
        >>> sum(weight.numel() for weight in model.parameters())
        134
        """
        sizes: dict[str, Any] = {"window": window, "prediction_window": window, "depth": 1}
        return cls(dim, **sizes, width=2 * dim, attention=attention, dtype=dtype)


def _symplectic_layer(
    components: Components, functions: Functions, layer: str, linear: int
) -> nn.Module:
    """Return a unit of the kind asked for, by arguments of :class:`SymplecticFeedForward`.

    Raises
    ------
    InputError
        If the symmetries do not keep the form, or an argument is for other layers.
    """
    check_even(components.moving, "; take a volume-preserving model, such as vpff")
    size = components.moving // 2
    expressions = functions.formulas
    halves = range(size), range(size, 2 * size)
    texts = [_expressions_of(half, components, expressions) for half in halves]
    if expressions and not any(texts):
        raise InputError(
            "each of the expressions depends on positions and momenta both; gradient couplings "
            "take those of one of them: leave the others out, or take vpff"
        )
    functions.check(components)
    if not {*components.periods}.isdisjoint(halves[1]):
        raise InputError("periodic: a momentum is no angle; angles are among the positions")
    scale = functions.initial_scale
    activation = functions.activation

    def potential(half: int, group: torch.Tensor | SignedGroup | None) -> nn.Module:
        """Return a function of the positions (0) or the momenta (1)."""
        variables = [*halves[half], *range(2 * size, 2 * size + components.read)]
        shared = {"group": group, **components.of_parameters}
        if functions.are_neurons:
            return NeuronPotential(
                size, functions.width, activation=activation, initial_scale=scale, **shared
            )
        return BasisPotential(
            size,
            functions.degree,
            periodic=[variables.index(i) for i in components.periods if i in variables],
            cyclic=[variables.index(i) for i in components.cyclic if i in variables],
            expressions=texts[half],
            components=variables,
            initial_scale=scale / 10,
            **shared,
        )

    group = components.group
    actions = canonical_blocks(group, components.read)
    if layer == "gradient":
        return GradientCoupling(potential(1, actions[1]), potential(0, actions[0]))
    if components.read or len(group) > 1 or components.periods or expressions:
        raise InputError(
            f"layer = {layer} respects no symmetries between degrees of freedom, and knows no "
            "angles, expressions and parameters; take layer = gradient, or fewer "
            "reversing_symmetries"
        )
    if layer == "henon":
        return HenonMap(potential(1, None))
    shears = [
        GradientCoupling(*(QuadraticPotential(size, initial_scale=scale) for _ in range(2)))
        for _ in range(linear)
    ]
    kicks = [ComponentPotential(size, activation=activation, initial_scale=scale) for _ in range(2)]
    return Composition(*shears, GradientCoupling(*kicks))


def _expressions_of(half: range, components: Components, expressions: list[str]) -> list[str]:
    """Return expressions of positions or momenta alone, with parameters."""
    variables = components.moving + components.read
    formulas = Formulas(expressions, variables)
    read = {*half, *range(components.moving, variables)}
    # a force that depends on time is a product with a function of that alone
    alone = components.explicit_time
    return [
        text
        for text, of in zip(formulas.texts, formulas.depends, strict=True)
        if of.issubset(read) and (alone or not of.isdisjoint(half))
    ]
