"""Layers that read parameters k beside states z, and layers with these multiplied out."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.nn.laws import assert_close, made, sample
from vpintegrator import nn
from vpintegrator.errors import InputError
from vpintegrator.nn.symmetry import canonical_blocks

FORMULAS = {"expressions": ["sigmoid(z[0] - z[4])", "sin(z[5])", "z[1]*z[4]"]}
FLIPS = [torch.diag(torch.tensor([1.0, -1, -1, -1, -1, 1])).tolist()]
# (q, p) -> (q, -p), and back in time: the form turns its sign, and so do potentials
TURNED = torch.diag(torch.tensor([1.0, 1, -1, -1, -1, 1])).tolist()
EXCHANGE = [*torch.eye(6)[[1, 0, 3, 2, 5, 4]].tolist()]
SIGNED = canonical_blocks(nn.generated_group([TURNED], 6), 2)[::-1]
N, M = 4, 2  # components, and parameters
READ = {"parameters": M}


def of(kind, *arguments, **options):
    """An example of a class that reads parameters."""
    return lambda d, T: kind(*arguments, **options, **READ)


def gradients(kind, *arguments, **options):
    """A coupling of n degrees of freedom by twice the same potential."""
    made = of(kind, *arguments, **options)
    return lambda d, T: nn.GradientCoupling(made(d, T), made(d, T))


def symmetric(kind, *arguments, **options):
    """A coupling by potentials that turn their sign with the form."""
    return lambda d, T: nn.GradientCoupling(
        *(kind(*arguments, group=group, **options, **READ) for group in SIGNED)
    )


def reversible(signs):
    made = of(nn.BasisCoupling, N, 2)
    return lambda d, T: nn.Reversible(nn.Composition(made(d, T), made(d, T)), np.diag(signs))


EXAMPLES = {
    "polynomials of parameters": of(nn.BasisCoupling, N, 3, sweep=[0, 1, 2, 3, 2]),
    "polynomials of angles": of(nn.BasisCoupling, N, 3, sweep=[0, 1], periodic=[2]),
    "polynomials in blocks": of(nn.BasisCoupling, N, 3, split=[[0, 1], [2, 3]], sweep=[0, 1, 0]),
    "vanishing": of(nn.BasisCoupling, N, 3, vanishing=[1]),
    "symmetric polynomials, vanishing": of(nn.BasisCoupling, N, 3, vanishing=[0], symmetries=FLIPS),
    "polynomials of formulas": of(nn.BasisCoupling, N, 2, sweep=[0, 1, 2], **FORMULAS),
    "rotated polynomials": lambda d, T: nn.Rotated(
        nn.BasisCoupling(N, 2, **READ), nn.spread_rotation(1, N)
    ),
    "gradients of polynomials": gradients(nn.BasisPotential, 2, 3),
    "gradients of polynomials of formulas": gradients(
        nn.BasisPotential, 2, 3, components=[0, 1, 4, 5], expressions=["sin(z[0]*z[5])"]
    ),
    "gradients of neurons": gradients(nn.NeuronPotential, 2, 5),
    "gradients of symmetric neurons": symmetric(nn.NeuronPotential, 2, 5),
    "gradients of symmetric polynomials": symmetric(nn.BasisPotential, 2, 3),
    "neurons of parameters": of(nn.AdditiveCoupling, N, 5),
    "neurons, vanishing": of(nn.AdditiveCoupling, N, 5, vanishing=[1]),
    "symmetric neurons, vanishing": of(
        nn.AdditiveCoupling, N, 5, vanishing=[0], symmetries=[TURNED]
    ),
    "gradients of neurons, vanishing": symmetric(nn.NeuronPotential, 2, 5, vanishing=[0]),
    "neurons in blocks": of(nn.AdditiveCoupling, N, 5, split="halves"),
    "symmetric neurons": of(nn.AdditiveCoupling, N, 5, symmetries=FLIPS),
    "symmetric neurons, mixed": of(
        nn.AdditiveCoupling, N, 5, split="halves", symmetries=[EXCHANGE, TURNED]
    ),
    "composition of parameters": lambda d, T: nn.Composition(
        nn.BasisCoupling(N, 2, sweep=[0, 1], **READ), nn.AdditiveCoupling(N, 3, **READ)
    ),
    "reversible of parameters": reversible([1.0, 1, -1, -1, 1, 1]),
    "reversible in parameters": reversible([1.0, 1, 1, 1, -1, -1]),
    "reversible in states and parameters": reversible([1.0, 1, -1, -1, -1, 1]),
}


def test_terms_of_the_same_function_become_one():
    layer = nn.BasisCoupling(3, 4, **READ)
    count = nn.BasisCoupling(3, 4).coefficients.numel()
    k = torch.tensor([0.3, -0.7])
    assert layer.at(k).coefficients.numel() == count < layer.coefficients.numel() / 4
    V = nn.BasisPotential(2, 4, **READ)
    assert V.at(k).coefficients.numel() == nn.BasisPotential(2, 4).coefficients.numel()


@pytest.mark.parametrize("layer", [nn.AdditiveCoupling(2), nn.BasisCoupling(2, parameters=1)])
def test_missing_and_other_parameters(layer):
    z, k = sample(3, 2), sample(2)
    with pytest.raises(InputError, match=r"reads (no|1) parameters beside states|axes"):
        layer(z, k)
    if layer.parameter_count:
        with pytest.raises(InputError, match="reads 1 parameters"):
            layer(z)


@pytest.mark.thorough
@given(st.integers(0, 10**6))
def test_a_reversing_symmetry_of_parameters_makes_inverses(seed):
    """Phi at -k is the inverse of Phi at k, and at k = 0 the identity."""
    layer = made("reversible in parameters", seed=seed, scale=0.1)
    z, k = sample(5, 1, N, seed=seed), sample(M, seed=seed + 1)
    assert_close(layer(layer(z, k), -k), z, 1e-10)
    assert_close(layer(z, 0 * k), z, 1e-11)


@pytest.mark.parametrize("name", ["neurons", "polynomials"])
def test_potentials_turn_their_sign_with_the_form(name):
    layer = made(f"gradients of symmetric {name}", scale=0.1)
    S = torch.tensor(TURNED).double()
    z, k = sample(5, 1, N), sample(5, M, seed=1)
    turned = layer(z @ S[:N, :N].mT, k @ S[N:, N:].mT)
    assert_close(turned, layer(z, k) @ S[:N, :N].mT, 1e-13)
    assert (layer(z, k) - z).abs().max() > 1e-3
