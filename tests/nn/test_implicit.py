"""Implicit maps: Newton's method, derivatives of any order, structure at random coefficients."""

import pytest
import torch
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import vpintegrator as vp
from tests.nn.laws import OnVariables, assert_close, determinant_error, sample
from vpintegrator.nn import (
    ElementaryHamiltonians,
    GeneratingFunction,
    InvariantPolynomial,
    SymplecticGeneratingFunction,
    VolumePreservingGeneratingFunction,
)
from vpintegrator.nn.implicit import unrolled

FLIP = torch.diag(torch.tensor([1.0, 1, -1, -1])).double()
SWAP = torch.eye(4).double()[[1, 0, 3, 2]]


def wide(size, degree=3, **options):
    """A function of a box so wide that maps exist whatever the weights."""
    function = GeneratingFunction(size, degree, **options)
    function.box_scale.fill_(10.5)
    return function


def even(dim):
    return dim + dim % 2


EXAMPLES = {
    "generating function": lambda d, T: SymplecticGeneratingFunction(wide(even(d))),
    "generating function of angles": lambda d, T: SymplecticGeneratingFunction(
        wide(even(d), 2, periodic=[0])
    ),
    "generating function of combinations": lambda d, T: SymplecticGeneratingFunction(
        wide(even(d), 2), combinations=mixed(even(d))
    ),
    "generating function with quadratic invariants": lambda d, T: turning(even(d)),
    "generating function of exact terms": lambda d, T: SymplecticGeneratingFunction(
        wide(even(d)), ElementaryHamiltonians(oscillators(even(d) // 2), even(d))
    ),
    "generating functions": lambda d, T: VolumePreservingGeneratingFunction(
        [wide(d) for _ in range(d - 1)]
    ),
}


def turning(size):
    """All planes turn together, in discs so wide that maps exist whatever the weights."""
    function = InvariantPolynomial(torch.ones(1, size // 2, device="cpu"), 4)
    function.box_scale.fill_(10.5)
    places = torch.arange(size, device="cpu").view(2, -1).mT.flatten()  # pairs (q, p)
    planes = torch.eye(size, dtype=torch.float64, device="cpu")[places]
    return SymplecticGeneratingFunction(function, combinations=planes)


def mixed(size):
    """Combinations of the components: differences of neighbours, and one of other units."""
    one = torch.eye(size, dtype=torch.float64, device="cpu")
    M = one - one.roll(1, 0).tril()
    M[-1, -1] = 1.5
    return M


def oscillators(freedoms):
    return " + ".join(f"z[{freedoms + i}]**2/40 - cos(z[{i}])/20" for i in range(freedoms))


def filled(layer, scale=0.03, seed=0):
    """Random coefficients, on a box of length one."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for c in layer.coefficients():
            c.copy_(scale * torch.randn(c.shape, generator=generator, dtype=torch.float64))
        if (terms := getattr(layer, "exact", None)) is not None:
            terms.coefficients[1:] *= 0.1  # corrections of H, as they are in a small step
    return layer


def symplectic(size=2, degree=3, **options):
    return SymplecticGeneratingFunction(GeneratingFunction(size, degree, **options))


def exact(text="z[1]**2/2 - cos(z[0])", parameters=0, **options):
    potential = GeneratingFunction(2, 3, parameters=parameters, vanishing=[0] * parameters)
    terms = ElementaryHamiltonians(text, 2, parameters=parameters)
    layer = SymplecticGeneratingFunction(potential, terms, **options)
    layer.adapt(sample(50, 2 + parameters))
    return layer


def chain(size=3, degree=3, **options):
    repeats = options.pop("repeats", 1)
    functions = [GeneratingFunction(size, degree, **options) for _ in range(size - 1)]
    return VolumePreservingGeneratingFunction(functions, repeats)


def torus(dim=3, degree=3, **options):
    """Of angles and cyclic components, with functions of two that are not neighbours."""
    options = {"periodic": dict.fromkeys(range(dim), 2 * torch.pi), **options}
    return vp.models.VolumePreservingGeneratingFunctionMap(dim=dim, degree=degree, **options).core


# an example or more of every implicit map
LAYERS = {
    "symplectic": symplectic,
    "symplectic of a parameter": lambda: symplectic(2, parameters=1, vanishing=[0]),
    "symplectic of combinations": lambda: SymplecticGeneratingFunction(
        GeneratingFunction(4, 2, parameters=1, periodic=[0, 1]), combinations=mixed(4)
    ),
    "exact terms": exact,
    "exact terms of a parameter": lambda: exact("z[2]*(z[1]**2/2 - cos(z[0]))", 1),
    "chain": chain,
    "chain of two components": lambda: chain(2),
    "chain of a parameter": lambda: chain(2, parameters=1),
    "chain of angles": lambda: chain(3, 2, periodic=[1]),
    "torus": lambda: torus(degree=2),
    "torus of a parameter": lambda: torus(2, 2, parameters=1, vanishing=[0]),
    "cyclic component": lambda: torus(3, 2, periodic={2: 2 * torch.pi}, cyclic=[1]),
}

FEW = settings(max_examples=8)
every_layer = pytest.mark.parametrize("name", LAYERS)


def made(name, scale=0.03, seed=0):
    return OnVariables(filled(LAYERS[name](), scale, seed))


@every_layer
def test_the_image_solves_the_equations(name):
    layer = made(name)
    z = sample(20, layer.dim)
    image = layer(z)
    assert_close(layer.residual(z, image, layer.coefficients()), torch.zeros_like(z), 1e-13)
    assert_close(layer.inverse(image), z, 1e-13)
    assert_close(layer(layer.inverse(z)), z, 1e-13)
    assert float((image - z).detach().abs().max()) > 1e-2
    for shape in ((layer.dim,), (4, 5, layer.dim), (0, layer.dim)):
        states = z[: 1 if len(shape) == 1 else None].reshape(-1)[: torch.Size(shape).numel()]
        assert layer(states.reshape(shape)).shape == shape


@every_layer
def test_equations_are_the_residual(name):
    """Linear in the coefficients: the matrix times them, less the right side."""
    layer = made(name)
    z, image = sample(6, layer.dim), sample(6, layer.dim, seed=1)
    n = layer.layer.dim
    image[:, n:] = z[:, n:]
    matrix, right = layer.equations(z, image)
    c = torch.cat([c.detach() for c in layer.coefficients()])
    residual = layer.residual(z, image, layer.coefficients()).detach()
    assert_close(right - matrix @ c, residual[:, :n], 1e-12)


@every_layer
@pytest.mark.parametrize("inverse", [False, True])
def test_derivatives_by_states_and_coefficients(name, inverse):
    layer = made(name)
    if inverse:
        layer.forward = layer.inverse
    names = [n for n, _ in layer.named_parameters()]

    def function(z, *c):
        return torch.func.functional_call(layer, dict(zip(names, c, strict=True)), (z,))

    c = [p.detach().clone().requires_grad_() for p in layer.coefficients()]
    z = sample(2, layer.dim).requires_grad_()
    assert torch.autograd.gradcheck(function, (z, *c), fast_mode=True)
    assert torch.autograd.gradgradcheck(function, (z, *c), fast_mode=True)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["symplectic of a parameter", "exact terms", "chain"])
def test_higher_derivatives_in_any_mode(name):
    """Those of the iteration itself, with every operation recorded, are the reference."""
    layer = made(name)
    layer.iterations = 10
    z = sample(layer.dim)
    forward, reverse = torch.func.jacfwd, torch.func.jacrev
    with unrolled():
        first = reverse(layer)(z)
        second = reverse(reverse(layer))(z)
        third = reverse(reverse(reverse(layer)))(z)
    for one in (forward, reverse):
        assert_close(one(layer)(z), first, 1e-12)
    for one, two in ((reverse, reverse), (forward, reverse), (reverse, forward)):
        assert_close(one(two(layer))(z), second, 1e-11)
    assert_close(reverse(reverse(reverse(layer)))(z), third, 1e-10)
    assert_close(torch.func.hessian(lambda y: layer(y)[0])(z), second[0], 1e-11)


@every_layer
@FEW
@given(scale=st.floats(0.1, 30), seed=st.integers(0, 999))
@example(scale=4.0, seed=788)  # "chain of angles": an iteration that wanders, as rounding decides
def test_states_without_a_solution_become_nan_and_no_others_do(name, scale, seed):
    """Large coefficients: each row is NaN, or solves the equations, whatever is beside it."""
    layer = made(name, scale, seed)
    z = sample(20, layer.dim, seed=seed)
    z[0, 0], z[1, 1] = torch.nan, torch.inf
    for backward in (False, True):
        with torch.no_grad():
            image = layer.inverse(z) if backward else layer(z)
            pair = (image, z) if backward else (z, image)
            residual = layer.residual(*pair, layer.coefficients())
            solved = image.isfinite().all(-1)
            size = scale * (1 + image[solved].abs().amax(-1, keepdim=True)) ** layer.dim
            if len(size):
                assert float((residual[solved] / size).abs().max()) < 1e-6
            alone = torch.stack([layer.inverse(x) if backward else layer(x) for x in z])
            assert torch.equal(alone.isfinite().all(-1), solved)
            assert bool(image[~solved].isnan().any(-1).all()) and not solved[:2].any()


@every_layer
def test_unrolled_maps_are_the_same(name):
    layer = made(name)
    z = sample(50, layer.dim)
    layer.settle(z)
    assert 3 <= layer.iterations <= 8
    with unrolled():
        forward, inverse = layer(z), layer.inverse(z)
    assert_close(forward, layer(z), 1e-14)
    assert_close(inverse, layer.inverse(z), 1e-14)


# structure at random coefficients


@FEW
@given(
    angles=st.sets(st.integers(0, 3), min_size=1),
    cyclic=st.sets(st.integers(0, 3), max_size=2),
    turns=st.tuples(*[st.integers(-3, 3)] * 4),
    scale=st.floats(1e-3, 0.03),
    seed=st.integers(0, 999),
)
def test_maps_commute_with_turns_and_with_shifts_of_cyclic_components(
    angles, cyclic, turns, scale, seed
):
    layer = filled(torus(4, 2, periodic=dict.fromkeys(angles, 2 * torch.pi), cyclic=cyclic))
    filled(layer, scale, seed)
    z = sample(4, seed=seed, scale=0.5)
    image = layer(z)
    assume(image.isfinite().all())
    shift = torch.zeros(4).double()
    for j, turn in enumerate(turns):
        if j in angles or j in cyclic:
            shift[j] = turn * (2 * torch.pi if j in angles else 0.3)
    assert_close(layer(z + shift) - shift, image, 1e-13)
    assert_close(layer.inverse(image + shift) - shift, z, 1e-13)
    assert determinant_error(layer, z) < 1e-13
    assert determinant_error(layer.inverse, z) < 1e-13


@FEW
@given(scale=st.floats(1e-3, 0.05), seed=st.integers(0, 999))
def test_symmetries_of_the_generating_function_are_those_of_the_map(scale, seed):
    """A reversing symmetry, which turns the form, and an exchange, which keeps it."""
    group = torch.stack([torch.eye(4).double(), FLIP, SWAP, FLIP @ SWAP])
    layer = filled(symplectic(4, 4, group=group), scale, seed)
    z = sample(5, 4, seed=seed, scale=0.5)
    image = layer(z)
    assume(image.isfinite().all())
    assert_close(layer(z @ SWAP), image @ SWAP, 1e-13)
    assert_close(layer(image @ FLIP) @ FLIP, z, 1e-13)
    assert_close(layer.inverse(z), layer(z @ FLIP) @ FLIP, 1e-13)


def of_angles():
    rhos = [torch.diag(torch.tensor(s)).tolist() for s in ([1.0, 1, -1, 1], [-1.0, 1, 1, -1])]
    return vp.models.VolumePreservingGeneratingFunctionMap(
        dim=4, degree=3, periodic=dict.fromkeys(range(4), 2 * torch.pi), reversing_symmetries=rhos
    )


@pytest.mark.parametrize(
    ("system", "name"),
    [("henon-heiles", "sgf"), ("rigid-body", "vpgf"), ("pendulum", "sgf"), (None, "angles")],
)
def test_models_are_reversible(system, name):
    own = vp.load_system(system) if system else None
    model = vp.models.build(own, name, {"degree": 4}) if own else of_angles()
    filled(getattr(model.core, "psi", model.core))
    z = sample(4, 1, model.dim, scale=0.3)
    image = model(z)
    assert len(model.reversing_symmetries)
    for rho in model.reversing_symmetries:
        assert_close(model(image @ rho.mT) @ rho.mT, z, 1e-12)
    if not system:
        turn = 2 * torch.pi * torch.tensor([1.0, -2, 3, 4]).double()
        assert_close(model(z + turn) - turn, image, 1e-12)


def test_functions_of_pairs_at_parameters():
    layer, z = filled(torus(3, parameters=1, vanishing=[0])), sample(5, 3)
    assert layer.pairs == [(0, 1), (1, 2), (0, 2)]
    k = torch.tensor([0.4], dtype=torch.float64)
    assert_close(layer.at(k)(z), layer(z, k), 1e-13)
    assert torch.equal(layer(z, 0 * k), z)
