"""One law for whatever says ``symplectic``: D^T J D = J at any weights, windows included."""

import inspect

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.nn.laws import assert_close, randomise, sample, symplecticity_defect
from vpintegrator import nn
from vpintegrator.nn.exact_flows import hamiltonian_parts

WEIGHTS = 0.5


def coupling(kind, *arguments, **options):
    """Twice the same potential, with weights of its own."""
    return nn.GradientCoupling(*(kind(*arguments, **options) for _ in range(2)))


# an example or more of every layer and of every potential, of n degrees of freedom, windows of T


def wide(size, degree=3, **options):
    """With a wide box, so that maps exist whatever the weights."""
    function = nn.GeneratingFunction(size, degree, **options)
    function.adapt(torch.tensor([[-30.0], [30.0]]).double().expand(2, size))
    return function


LAYERS = {
    "neurons": lambda n, T: coupling(nn.NeuronPotential, n, 5),
    "polynomials": lambda n, T: coupling(nn.BasisPotential, n, 3),
    "polynomials of angles": lambda n, T: nn.GradientCoupling(
        nn.BasisPotential(n, 3), nn.BasisPotential(n, 3, periodic=[0])
    ),
    "linear modules": lambda n, T: coupling(nn.QuadraticPotential, n),
    "activation modules": lambda n, T: coupling(nn.ComponentPotential, n),
    "generating function": lambda n, T: nn.SymplecticGeneratingFunction(wide(2 * n)),
    "generating function of angles": lambda n, T: nn.SymplecticGeneratingFunction(
        wide(2 * n, 2, periodic=[0])
    ),
    "generating function of exact terms": lambda n, T: nn.SymplecticGeneratingFunction(
        wide(2 * n),
        nn.ElementaryHamiltonians(
            " + ".join(f"z[{n + i}]**2/40 - cos(z[{i}])/20" for i in range(n)), 2 * n
        ),
    ),
    "splitting": lambda n, T: nn.LearnedSplitting(
        hamiltonian_parts(" + ".join(f"z[{n + i}]**2/2 - cos(z[{i}])" for i in range(n)), 2 * n),
        2 * n,
        2,
    ),
    "henon": lambda n, T: nn.HenonMap(nn.NeuronPotential(n, 5)),
    "rotations": lambda n, T: nn.SymplecticAttention(2 * n),
    "composition": lambda n, T: nn.Composition(
        nn.SymplecticAttention(2 * n), coupling(nn.NeuronPotential, n, 3)
    ),
    "reversible": lambda n, T: nn.Reversible(
        coupling(nn.NeuronPotential, n, 3), np.diag([1.0] * n + [-1.0] * n)
    ),
}


def examples():
    return [make(2, 3) for make in LAYERS.values()]


def exported():
    return [value for name in nn.__all__ if inspect.isclass(value := getattr(nn, name))]


def test_every_symplectic_layer_has_an_example():
    # what is made of layers, as a composition is, has a property and not the claim itself
    claimed = {kind for kind in exported() if getattr(kind, "symplectic", False) is True}
    assert claimed - {type(layer) for layer in examples()} == set(), "add it to LAYERS"


def test_every_potential_has_an_example():
    potentials = {kind for kind in exported() if hasattr(kind, "gradient")}
    met = {type(part) for layer in examples() for part in layer.modules()}
    assert potentials - met == set(), "add a coupling of it to LAYERS"


@pytest.mark.parametrize("name", LAYERS)
@settings(max_examples=10)
@given(st.integers(1, 3), st.integers(2, 4), st.integers(0, 10**6))
def test_the_form_is_kept_on_windows(name, freedoms, window, seed):
    torch.manual_seed(seed)
    layer = randomise(LAYERS[name](freedoms, window), WEIGHTS, seed)
    assert layer.symplectic and layer.volume_preserving
    dim = getattr(layer, "dim", 2 * freedoms)
    X = sample(window, dim, seed=seed, scale=0.7)
    assert symplecticity_defect(layer, X) <= 1e-12
    Y = layer(X)
    assert_close(layer.inverse(Y), X, 1e-11 * max(1.0, float(Y.detach().abs().max())))
    assert (Y - X).abs().max() > 1e-6


def attention(A):
    """X -> cayley(X A X^T)^T X: the skew-weighted attention, as a function of its weighting."""
    return lambda X: nn.cayley(X @ A @ X.mT).mT @ X


@given(st.integers(1, 3), st.integers(2, 5), st.integers(0, 10**6))
def test_skew_attention_keeps_the_form_that_weights_it(freedoms, window, seed):
    """Of the weightings A = a J alone are symplectic, for more than one degree of freedom."""
    dim = 2 * freedoms
    X, a = sample(window, dim, seed=seed), float(sample(1, seed=seed))
    assert symplecticity_defect(attention(a * nn.canonical_form(dim)), X) <= 1e-12


@pytest.mark.parametrize("kind", ["random", "weighted"])
def test_another_weighting_of_attention_is_not_symplectic(kind):
    """Why ``SymplecticAttention`` rotates each degree of freedom by itself."""
    X, weights = sample(3, 4), torch.diag(torch.tensor([1.0, 2, 1, 2], dtype=torch.float64))
    random = nn.skew_matrix(sample(6), 4)
    A = random if kind == "random" else nn.canonical_form(4) @ weights
    assert symplecticity_defect(attention(A), X) > 1e-2


def test_volume_is_less_than_the_form():
    """From two degrees of freedom on, what preserves volume is not symplectic by that."""
    for layer in (nn.AdditiveCoupling(4, 5), nn.VolumePreservingAttention(4)):
        X = sample(3, 4)
        assert symplecticity_defect(randomise(layer, WEIGHTS, 1), X) > 1e-2
    plane = randomise(nn.AdditiveCoupling(2, 5), WEIGHTS, 1)  # where area is the form
    assert symplecticity_defect(plane, sample(2)) <= 1e-14
