"""Generating functions of clusters of bodies: derivatives, symmetries, momenta, linear solves."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import vpintegrator as vp
from tests.nn.laws import assert_close, jacobian, randomise, sample, symplecticity_defect
from vpintegrator import nn
from vpintegrator.errors import InputError
from vpintegrator.models import SymplecticGeneratingFunctionMap, with_bodies
from vpintegrator.nn import symplectic_generating
from vpintegrator.nn.fixed_point import fixed_point
from vpintegrator.training.linear import fit_linear

# layout, components of a vector, translations, rotations, lengths
CASES = [
    ("ring", 1, True, False, "logarithms"),
    ("ring", 1, False, False, "logarithms"),
    ("chain", 2, True, False, "logarithms"),
    ("walls", 1, False, False, "logarithms"),
    ("pairs", 2, True, True, "logarithms"),
    ("pairs", 3, False, True, "squares"),
    ("chain", 2, False, True, "logarithms"),
    ("", 2, True, True, "squares"),
]
every_case = pytest.mark.parametrize("case", CASES, ids=str)


def reversal(half):
    return torch.diag(torch.tensor([1.0] * half + [-1.0] * half)).double()


def made(case, bodies=5, degree=3, seed=0, scale=3e-3, reversible=True, **options):
    topology, d, translations, rotations, lengths = case
    bodies = bodies if topology else 3  # of which none are alike
    rhos = [reversal(bodies * d)] if reversible else []
    reach = {"reach": 2 if d == 1 else 1} if topology not in ("", "pairs") else {}
    model = SymplecticGeneratingFunctionMap(
        dim=2 * bodies * d,
        degree=degree,
        bodies=bodies,
        topology=topology,
        translations=translations,
        rotations=rotations,
        lengths=lengths,
        reversing_symmetries=rhos,
        **(reach | options),
    )
    model.core.potential.adapt(states(model, 50, 1))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        model.core.potential.coefficients.normal_(0, scale, generator=generator)
    return model


def states(model, count, seed=0):
    """Bodies far enough apart for logarithms of lengths."""
    half = model.dim // 2
    places = 2 * torch.arange(half).double().unflatten(0, (model.bodies, -1))
    z = sample(count, model.dim, seed=seed, scale=0.2)
    return z + torch.cat([places.flatten(), torch.zeros(half).double()])


@every_case
def test_derivatives_are_those_of_torch(case):
    model = made(case)
    S, z = model.core.potential, states(model, 3)
    gradient, hessian = S.gradient_and_hessian(z)
    assert float(gradient.detach().abs().max()) > 1e-4
    assert_close(gradient, S.gradient(z), 1e-15)
    for x, found in zip(z, hessian, strict=True):
        room = 1e-14 * max(1.0, float(found.detach().abs().max()))
        assert_close(found, torch.func.jacfwd(S.gradient)(x), room)
        assert_close(found, found.mT, room)


@pytest.mark.parametrize("case", [CASES[0], CASES[4]], ids=str)
def test_a_function_of_higher_degree_takes_one(case):
    smaller, larger = made(case), made(case, degree=5)
    larger.core.prolong(smaller.core)
    z = states(smaller, 4)
    assert_close(larger(z[:, None]), smaller(z[:, None]), 1e-14)


@every_case
def test_features_are_what_coefficients_weigh(case):
    model = made(case)
    S, z = model.core.potential, states(model, 6)
    basis = S.gradient_features(z)
    assert_close(basis @ S.coefficients, S.gradient(z), 1e-14)
    by_c = torch.func.jacrev(lambda c: S.gradient(z, c))(S.coefficients.detach())
    assert_close(basis, by_c, 1e-12)
    assert S.degrees.shape == S.coefficients.shape and int(S.degrees.max()) == 3


@pytest.mark.thorough
@every_case
@settings(max_examples=2, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_structure_at_random_coefficients(case, seed):
    topology, d, translations, rotations, _ = case
    model = made(case, seed=seed)
    z, n = states(model, 4, seed), model.bodies
    new = model(z[:, None])[:, 0].detach()
    assert float((new - z).abs().max()) > 1e-5
    assert symplecticity_defect(model.core, z[0]) < 1e-12
    assert_close(model.inverse(new[:, None])[:, 0], z, 1e-12)
    (rho,) = model.reversing_symmetries
    assert_close(model((new @ rho.mT)[:, None])[:, 0] @ rho.mT, z, 1e-12)

    def parts(z):
        return z.unflatten(-1, (2, n, d)).unbind(-3)

    (q, p), (Q, P) = parts(z), parts(new)
    if translations:
        assert_close(P.sum(-2), p.sum(-2), 1e-13)
    if rotations:
        before, after = q.mT @ p, Q.mT @ P
        assert_close(after - after.mT, before - before.mT, 1e-12)
    if topology in ("pairs", "ring"):
        order = torch.tensor([3, 0, 4, 1, 2]) if topology == "pairs" else torch.arange(n).roll(1)

        def moved(z):
            return z.unflatten(-1, (2, n, d))[..., order, :].flatten(-3)

        assert_close(model(moved(z)[:, None])[:, 0], moved(new), 1e-12)


def test_other_reversing_symmetries_choose_terms():
    """The mirror image of a ring, q -> -q in the opposite order, with momenta turned as well."""
    model = made(CASES[0])
    mirror = torch.block_diag(-torch.eye(5).flip(0), torch.eye(5).flip(0)).double()
    rhos = [reversal(5), mirror]
    both = SymplecticGeneratingFunctionMap(
        dim=10,
        degree=3,
        bodies=5,
        topology="ring",
        reach=2,
        translations=True,
        reversing_symmetries=rhos,
    )
    S = both.core.potential
    assert S.coefficients.numel() < model.core.potential.coefficients.numel()
    with torch.no_grad():
        S.coefficients.normal_(0, 0.01)
    z = sample(4, 10, scale=0.3)
    for rho in both.reversing_symmetries:
        new = both(z[:, None])[:, 0].detach()
        assert_close(both((new @ rho.mT)[:, None])[:, 0] @ rho.mT, z, 1e-12)


@pytest.mark.parametrize("case", [CASES[0], CASES[4]], ids=str)
def test_a_map_of_clusters_is_recovered_from_its_pairs(case):
    truth, learned = made(case, scale=0.01), made(case, scale=0)
    learned.core.potential.adapt_like(truth.core.potential)
    z = states(truth, 300)
    image = truth(z[:, None])[:, 0].detach()
    fit = fit_linear(learned, z, image)
    assert fit.error < 1e-12
    layer = learned.core
    matrix, right = layer.equations(*(learned.normalised(x) for x in (z, image)))
    scale = image.std(0)
    A = (matrix / scale[:, None]).flatten(0, 1).detach().numpy()
    c = np.linalg.lstsq(A, (right / scale).flatten().numpy(), rcond=1e-13)[0]
    found = layer.potential.coefficients.detach()
    if fit.rank == fit.coefficients:
        assert_close(found, truth.core.potential.coefficients.detach(), 1e-9)
        assert_close(found, torch.from_numpy(c), 1e-9)
    other = states(truth, 20, 5)
    expected = truth(other[:, None])
    assert_close(learned(other[:, None]), expected, 1e-11)
    with torch.no_grad():  # minimal solutions differ in what no equation sees
        layer.potential.coefficients.copy_(torch.from_numpy(c))
    assert_close(learned(other[:, None]), expected, 1e-11)


def test_models_are_saved_and_know_other_numbers_of_bodies(tmp_path):
    model = made(CASES[0])
    vp.save(model, tmp_path / "a.safetensors")
    loaded = vp.load(tmp_path / "a.safetensors")
    z = states(model, 3)
    assert_close(loaded(z[:, None]), model(z[:, None]), 0)
    larger = with_bodies(loaded, 9)
    x = sample(2, 18, scale=0.2)
    new = larger(x[:, None])[:, 0].detach()
    assert_close(new[:, 9:].sum(1), x[:, 9:].sum(1), 1e-13)
    assert symplecticity_defect(larger.core, x[0]) < 1e-12
    assert_close(with_bodies(larger, 5)(z[:, None]), model(z[:, None]), 0)


@pytest.mark.parametrize("name", ["toda", "three-body", "fput"])
def test_systems_that_declare_bodies_give_them(name):
    system = vp.load_system(name)
    model = vp.models.build(system, "sgf", degree=4)
    assert model.arguments["bodies"] == system.bodies.count
    assert isinstance(model.core.potential, nn.ClusterGeneratingFunction)
    assert "symmetries of bodies are built in" in model.choices[-1]
    whole = vp.models.build(system, "sgf", degree=2, symmetries=False)
    assert isinstance(whole.core.potential, nn.GeneratingFunction)
    exact = vp.models.build(system, "sgf", functions="hamiltonian")
    assert "bodies" not in exact.arguments


@pytest.mark.parametrize("scale", [0.003, 30.0])
def test_accelerated_iteration_finds_what_newton_finds(monkeypatch, scale):
    model = made(CASES[0], scale=scale)
    z = states(model, 30)
    expected = model(z[:, None]).detach()
    monkeypatch.setattr(symplectic_generating, "_DENSE", 1)
    found = model(z[:, None]).detach()
    both = expected.isfinite() & found.isfinite()
    assert_close(found[both], expected[both], 1e-12)
    if scale < 1:
        assert bool(both.all())
        derivative = jacobian(model.core, z[0])
        monkeypatch.undo()
        assert_close(derivative, jacobian(model.core, z[0]), 1e-12)
    else:
        assert not bool(both.all())
        residual = model.core.residual(z, found[:, 0], model.core.coefficients())
        solved = found[:, 0].isfinite().all(-1)
        assert not bool(solved.any()) or float(residual[solved].detach().abs().max()) < 1e-6


def test_fixed_points_and_none():
    start = torch.tensor([[0.1, 0.2], [0.3, torch.nan], [5.0, 5.0]]).double()
    A = torch.tensor([[0.0, 0.9], [-0.5, 0.3]]).double()

    def function(x):
        return torch.where(x > 4, x + 1, x @ A.mT + 1.0)

    found, solved = fixed_point(start, function, torch.ones(2).double())
    assert solved.squeeze(-1).tolist() == [True, False, False]
    expected = torch.linalg.solve(torch.eye(2).double() - A, torch.ones(2).double())
    assert_close(found[0], expected, 1e-13)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"bodies": 3, "topology": "ring"}, "not of 3 bodies"),
        ({"bodies": 2, "topology": "chain", "conserved": [3]}, "no conserved components"),
        ({"bodies": 2, "topology": "chain", "expressions": ["exp(z[0])"]}, "no expressions"),
        (
            {
                "bodies": 2,
                "topology": "chain",
                "reversing_symmetries": [torch.eye(4)[[2, 3, 0, 1]]],
            },
            "mix positions and momenta",
        ),
    ],
)
def test_bodies_that_do_not_fit_are_refused(arguments, words):
    with pytest.raises(InputError, match=words):
        SymplecticGeneratingFunctionMap(dim=4, degree=2, **arguments)


def test_terms_of_states_of_different_sizes_are_refused():
    terms = []
    for bodies in (4, 5):
        (alike,) = nn.clusters("ring", bodies, 2)
        terms.append(nn.ClusterTerm(alike, nn.PhaseFeatures(2), bodies, 2))
    with pytest.raises(InputError, match="of one size"):
        nn.ClusterGeneratingFunction(terms)
    assert randomise(nn.ClusterGeneratingFunction(terms[:1]), 0.1, 0).coefficients.any()
