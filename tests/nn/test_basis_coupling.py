"""Couplings of polynomials and Fourier sums: the terms, and what symmetries leave of them."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial import chebyshev as numpy_chebyshev

import vpintegrator as vp
from tests.nn.laws import SIGN_FLIPS, assert_close, determinant_error, randomise, sample
from vpintegrator import nn
from vpintegrator.errors import InputError
from vpintegrator.nn.basis import HARMONICS, POLYNOMIALS, RADIUS, VANISHING, terms
from vpintegrator.nn.symmetry import generated_group, symmetry_group

EXAMPLES = {
    "polynomials": lambda d, T: nn.BasisCoupling(d, 2),
    "polynomials of high degree": lambda d, T: nn.BasisCoupling(d, 6 if d < 5 else 4),
    "polynomials to and fro": lambda d, T: nn.BasisCoupling(
        d, 2, sweep=[*range(d), *range(d)[::-1]]
    ),
    "polynomials of angles and formulas": lambda d, T: nn.BasisCoupling(
        d, 2, expressions=["sigmoid(z[0])", "sin(z[1])"], periodic=[1]
    ),
}
EXCHANGE = [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]
FLIP_MOMENTUM = torch.diag(torch.tensor([1.0, 1, -1, -1])).tolist()
FLIP_ANGLE = torch.diag(torch.tensor([-1.0, -1, 1, 1])).tolist()
EXCHANGE_BOTH = [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, -1], [0, 0, -1, 0]]
ARCHITECTURES = vp.models.ARCHITECTURES
TURN = [[0, -1, 0, 0], [1, 0, 0, 0], [0, 0, 0, -1], [0, 0, 1, 0]]


def test_the_functions_are_those_of_numpy():
    x = torch.linspace(-4, 4, 17, dtype=torch.float64)
    for n, value in enumerate(POLYNOMIALS.jet(x, 7)[0]):
        expected = numpy_chebyshev.Chebyshev.basis(n)(x.numpy() / RADIUS)
        assert np.abs(value.numpy() - expected).max() < 1e-11
    one, *pairs = HARMONICS.jet(x, 4)[0]
    assert_close(one, torch.ones_like(x))
    for n in range(1, 5):
        assert_close(pairs[2 * n - 2], torch.cos(n * x), 1e-14)
        assert_close(pairs[2 * n - 1], torch.sin(n * x), 1e-14)


def test_the_rigid_body_needs_six_numbers_for_each_component():
    """g_1 = z_2 z_3 P(z_2^2, z_3^2), and so on: of degree 6, P has six coefficients."""
    group = symmetry_group(SIGN_FLIPS, 3)
    assert nn.BasisCoupling(3, 6, symmetries=group).coefficients.numel() == 18
    assert nn.BasisCoupling(3, 6).coefficients.numel() == 3 * math.comb(8, 2)


@pytest.mark.parametrize(
    ("dim", "generators", "split"),
    [
        (3, [torch.diag(torch.tensor([1.0, -1.0, -1.0])).tolist()], "coordinates"),
        (4, [EXCHANGE], "halves"),
        (4, [TURN], "halves"),
        (4, [TURN, EXCHANGE], "halves"),
        (4, [(-torch.eye(4)).tolist(), EXCHANGE], "halves"),
    ],
)
@given(st.integers(0, 10**6), st.integers(1, 5))
def test_the_layer_commutes_with_its_symmetries(dim, generators, split, seed, degree):
    torch.manual_seed(seed)
    layer = nn.BasisCoupling(dim, degree, split=split, symmetries=generators)
    randomise(layer, 0.3, seed)
    z = sample(dim, seed=seed)
    for S in generated_group(generators, dim):
        assert_close(layer(S @ z), S @ layer(z), 1e-12)


@pytest.mark.parametrize("generators", [[EXCHANGE], [TURN], [TURN, EXCHANGE]])
def test_no_function_that_symmetries_allow_is_missing(generators):
    """As many parameters as the projector on the functions that they allow has dimensions."""
    degree, group = 3, generated_group(generators, 4)
    layer = nn.BasisCoupling(4, degree, split="halves", symmetries=generators)
    points = sample(200, 2, seed=1)
    features = torch.tensor(terms(degree, [POLYNOMIALS] * 2))

    def evaluated(z):
        powers = [torch.stack(POLYNOMIALS.jet(z[:, j], degree)[0], 1) for j in (0, 1)]
        return powers[0][:, features[:, 0]] * powers[1][:, features[:, 1]]

    count = 0
    for own, rest in ((slice(0, 2), slice(2, 4)), (slice(2, 4), slice(0, 2))):
        traces = []
        for S in group:
            moved = torch.linalg.lstsq(evaluated(points), evaluated(points @ S[rest, rest].mT))
            traces.append(moved.solution.trace() * torch.linalg.inv(S[own, own]).trace())
        count += round(float(torch.stack(traces).mean()))
    assert layer.coefficients.numel() == count


def assert_laws(model, Z):
    """Volume, the inverse, every reversing symmetry of windows and their products."""
    assert determinant_error(model, Z[0]) <= 1e-12
    assert_close(model.inverse(model(Z)), Z, 1e-11)
    for rho in model.reversing_symmetries:
        assert_close(model(model(Z).flip(-2) @ rho.mT).flip(-2) @ rho.mT, Z, 1e-11)
        for other in model.reversing_symmetries:
            assert_close(model(Z @ (rho @ other).mT), model(Z) @ (rho @ other).mT, 1e-11)


def reversible(model, seed, scale, **options):
    """A model of polynomials with random weights, and its mean and spread."""
    torch.manual_seed(seed)
    made = ARCHITECTURES[model](functions="polynomial", **options)
    count = sum(p.numel() for p in made.parameters())
    randomise(made.core, scale / count**0.5, seed)
    generator = np.random.default_rng(seed)
    made.set_normalisation(
        generator.normal(size=made.dim), generator.uniform(0.5, 2, size=made.dim)
    )
    return made


@pytest.mark.parametrize("model", ["vpff", "vpt", "vpmt"])
@settings(max_examples=8)
@given(st.integers(0, 10**6), st.sampled_from([{}, {0: 2.5, 2: 7}]))
def test_models_of_polynomials_keep_volume_and_are_reversible(model, seed, periodic):
    options = {"dim": 3, "depth": 1, "degree": 4, "reversing_symmetries": SIGN_FLIPS}
    made = reversible(model, seed, 2.0, periodic=periodic, **options)
    assert_laws(made, sample(2, made.window, 3, seed=seed, scale=0.5))


@pytest.mark.parametrize("rhos", [[FLIP_MOMENTUM], [FLIP_MOMENTUM, FLIP_ANGLE], [EXCHANGE_BOTH]])
@settings(max_examples=5)
@given(st.integers(0, 10**6))
def test_models_of_angles_turn_and_reverse_about_any_shift(rhos, seed):
    """Whatever mean and spread the states have, periods and symmetries are exact."""
    options = {"dim": 4, "depth": 2, "degree": 3, "split": "halves", "reversing_symmetries": rhos}
    made = reversible("vpff", seed, 1.0, periodic=[[0, 2.5], [1, 2.5]], **options)
    assert_close(made.scale[:2], torch.full((2,), 2.5 / (2 * math.pi), dtype=torch.float64), 1e-15)
    Z = sample(5, 1, 4, seed=seed)
    turn = 2.5 * torch.tensor([1, -2, 0, 0], dtype=torch.float64)
    assert_close(made(Z + turn), made(Z) + turn, 1e-12)
    assert_laws(made, Z)


SYSTEMS = ["toda", "coupled-oscillators", "double-pendulum", "three-body", "charged-particle"]


@pytest.mark.parametrize("name", SYSTEMS)
@settings(max_examples=3)
@given(st.integers(0, 10**6))
def test_models_of_the_functions_of_a_system_keep_its_laws(name, seed):
    """Whatever mean and spread the states have, every symmetry of the system is exact."""
    system = vp.load_system(name, **({"n": 3} if name == "toda" else {}))
    options = {"dim": system.dim, "depth": 1, "degree": 2, "expressions": system.functions}
    options |= {"reversing_symmetries": system.reversing_symmetries, "periodic": system.periods}
    options["split"] = "halves" if system.is_hamiltonian else "coordinates"
    made = reversible("vpff", seed, 0.3, **options)
    Z = torch.from_numpy(system.sample_initial(4, np.random.default_rng(seed))).unsqueeze(1)
    made.set_normalisation(Z.mean((0, 1)), Z.std((0, 1)) + 0.5)
    assert_laws(made, Z)


def test_functions_that_a_block_cannot_use_are_left_out():
    texts = ["exp(z[0])", "tanh(z[1])", "z[0]*cos(z[1])", "sin(z[3])"]
    flip = torch.diag(torch.tensor([1.0, -1, -1, -1]))
    for symmetries, second in (((), texts[:3]), ([-flip], texts[1:3]), ([flip], texts[:3])):
        options = {"split": [[0, 1], [2, 3]], "symmetries": symmetries}
        layer = nn.BasisCoupling(4, 2, expressions=texts, **options)
        assert [own.formulas.texts for own in layer.formulas.values()] == [texts[3:], second]
    assert layer.formulas["0"].shift.tolist() == [0]  # of an odd function


def test_a_function_of_the_system_makes_its_flow_exact():
    """q' = 0, p' = exp(q) is one coupling."""
    layer = nn.BasisCoupling(2, 1, expressions=["exp(z[0])"])
    shift, scale = torch.tensor([0.4, 1.0]).double(), torch.tensor([2.0, 3.0]).double()
    for own in layer.formulas.values():
        own.set_units(shift, scale)
    z = sample(50, 2)
    with torch.no_grad():
        layer.coefficients.zero_()
        columns = []
        for n in range(len(layer.coefficients)):
            layer.coefficients[n] = 1
            columns.append((layer(z) - z)[:, 1])
            layer.coefficients[n] = 0
    kick = torch.exp(shift[0] + scale[0] * z[:, 0])
    found = torch.linalg.lstsq(torch.stack(columns, 1), kick.unsqueeze(1), driver="gelsd").solution
    assert_close(torch.stack(columns, 1) @ found, kick.unsqueeze(1), 1e-11)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dim": 12, "degree": 12}, "more than 2,000 terms"),
        ({"symmetries": [[[0.6, -0.8], [0.8, 0.6]]]}, "generate a group of more than"),
        (
            {"dim": 4, "symmetries": [EXCHANGE], "split": "halves", "periodic": [0]},
            "exchange angles with components that are none",
        ),
        ({"expressions": ["__import__('os')"]}, r"expressions\[0\], column 1: unknown function"),
        ({"expressions": ["exp(z[0]*z[1])"]}, "depends on components of every block"),
        ({"expressions": ["sin(z[0])", "sin(-z[0])"]}, "the same function, but for the sign"),
        ({"parameters": 1, "vanishing": [1]}, r"parameters, of which there are 1, not \[1\]"),
    ],
)
def test_what_cannot_be(options, message):
    with pytest.raises(InputError, match=message):
        nn.BasisCoupling(**{"dim": 2, **options})


def test_cyclic_and_conserved_components():
    layer = nn.BasisCoupling(3, 3, cyclic=[0], sweep=[0, 1])
    randomise(layer, 1.0, 1)
    z = torch.rand(5, 3, dtype=torch.float64)
    moved = z + torch.tensor([0.7, 0.0, 0.0])
    torch.testing.assert_close(layer(moved) - layer(z), moved - z)
    assert torch.equal(layer(z)[:, 2], z[:, 2]) and (layer(z) - z).abs()[:, :2].min() > 0
    torch.testing.assert_close(layer.inverse(layer(z)), z)


FLIP_RATE = torch.diag(torch.tensor([1.0, 1, 1, -1, -1])).tolist()


def test_functions_of_rates_have_the_parity_of_their_degree():
    x = torch.linspace(-4, 4, 17, dtype=torch.float64)
    one, *others = VANISHING.jet(x, 6)[0]
    assert_close(one, torch.ones_like(x), 0)
    for n, value in enumerate(others, 1):
        assert_close(value, x / RADIUS * POLYNOMIALS.jet(x, 6)[0][n - 1], 1e-11)
        assert_close(value.flip(0), (-1) ** n * value, 1e-11)
        assert VANISHING.is_odd(n) == bool(n % 2)
    options = {"parameters": 2, "vanishing": [0, 1]}
    layer, z = nn.BasisCoupling(3, 3, sweep=[0, 1, 2, 1], periodic=[1], **options), sample(7, 3)
    randomise(layer, 0.3, 1)
    assert (layer(z, torch.tensor([0.0, 0.1])) - z).abs().max() > 0  # one rate is enough
    # with the reversing symmetry of rates the products of two rates with anything even are left
    flips = [FLIP_RATE, (-torch.eye(5)).tolist()]
    layer = nn.BasisCoupling(3, 4, symmetries=symmetry_group(flips, 5), **options)
    chosen = layer.terms[0].chosen
    assert bool((chosen[:, 2:].sum(1) > 0).all())
    assert {tuple(e) for e in (chosen[:, :2].sum(1, keepdim=True) % 2).tolist()} == {(1,)}


def test_rates_of_potentials():
    V = randomise(nn.BasisPotential(2, 3, parameters=2, vanishing=[0]), 0.5, 1)
    x = sample(5, 4) * torch.tensor([1.0, 1, 0, 1])
    assert V.gradient(x).shape == (5, 2) and not V.gradient(x).any()
    x[:, 2] = 0.1
    assert V.gradient(x).all()
    D = torch.func.jacrev(V.gradient)(x[0])
    assert_close(D[:, :2], D[:, :2].mT, 1e-14)
