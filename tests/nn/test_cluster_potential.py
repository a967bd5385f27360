"""Potentials of many bodies: gradients, and what they leave alone, at random weights."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.nn.laws import assert_close, jacobian, randomise, sample, symplecticity_defect
from vpintegrator import nn
from vpintegrator.errors import InputError
from vpintegrator.models import SymplecticFeedForward, SymplecticTransformer, with_bodies

TOPOLOGIES = ["pairs", "ring", "chain", "walls"]
CASES = [
    (topology, dimension, translations, rotations, order)
    for topology in TOPOLOGIES
    for dimension in (1, 2, 3)
    for translations in (False, True)
    for rotations in (False, True)
    for order in (1, 2, 3)
    if not (translations and (order == 1 or topology == "walls"))
    and not (topology == "pairs" and order == 3)
]


def made(topology, dimension, translations, rotations, order, bodies=5, seed=0, species=None):
    parts = []
    torch.manual_seed(seed)
    for alike in nn.clusters(topology, bodies, order, species):
        features = nn.ClusterFeatures(
            order, dimension, translations=translations, rotations=rotations
        )
        eye = torch.eye(dimension, dtype=torch.float64)
        moves = [(True, sign * eye) for sign in alike.turned] + [(False, eye)]
        group = nn.generated_group(features.group(moves), features.size)
        function = nn.BasisPotential(features.size, 3, group=group, involved=features.ends)
        parts.append(nn.ClusterPotential(alike, features, function, bodies=bodies, group=group))
    return randomise(nn.PotentialSum(parts), 0.5, seed)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_a_potential_leaves_alone(case):
    topology, dimension, translations, rotations, _ = case
    V, n = made(*case), 5
    x = sample(n, dimension)
    H = jacobian(V.gradient, x.flatten())
    assert_close(H, H.mT)
    force = V.gradient(x.flatten()).view(n, dimension)
    assert float(force.detach().abs().max()) > 1e-4
    if translations:  # no net force, and no net torque below
        assert_close(force.sum(0), torch.zeros(dimension, dtype=torch.float64), 1e-13)
    if rotations:
        torque = x.mT @ force
        assert_close(torque, torque.mT, 1e-12)
    if topology == "ring":
        assert_close(V.gradient(x.roll(1, 0).flatten()), force.roll(1, 0).flatten())
    if topology == "walls":
        assert_close(V.gradient(-x.flip(0).flatten()), -force.flip(0).flatten())
    if topology == "pairs":
        order = torch.tensor([3, 0, 4, 1, 2])
        assert_close(V.gradient(x[order].flatten()), force[order].flatten())


@pytest.mark.parametrize("order", [1, 2, 3])
def test_between_walls_is_half_of_a_ring_with_images(order):
    n = 4
    V = made("walls", 1, False, False, order, bodies=n)
    ring = made("ring", 1, False, False, order, bodies=2 * n + 2)
    for own, theirs in zip(V.potentials, ring.potentials, strict=True):
        theirs.function = own.function
    x = sample(n)
    wall = torch.zeros(1, dtype=torch.float64)
    whole = torch.cat([wall, x, wall, -x.flip(0)])
    assert_close(V.gradient(x), ring.gradient(whole)[1 : n + 1])


def test_like_bodies_share_their_weights():
    species = [0, 1, 0, 1, 0]
    V = made("pairs", 2, True, True, 2, species=species)
    assert len(V.potentials) == 3
    x = sample(5, 2)
    order = torch.tensor([4, 3, 0, 1, 2])  # like ones exchanged
    force = V.gradient(x.flatten()).view(5, 2)
    assert_close(V.gradient(x[order].flatten()), force[order].flatten())
    other = torch.tensor([1, 0, 2, 3, 4])
    moved = V.gradient(x[other].flatten()).view(5, 2)
    assert float((moved - force[other]).detach().abs().max()) > 1e-3


@pytest.mark.parametrize("logarithms", [False, True])
def test_variables_fill_the_range_in_which_they_were_seen(logarithms):
    (pairs,) = nn.clusters("pairs", 4, 2)
    features = nn.ClusterFeatures(2, 3, translations=True, rotations=True, logarithms=logarithms)
    V = nn.ClusterPotential(pairs, features, nn.BasisPotential(1, 3), bodies=4)
    x = 3 + 2 * sample(50, 12)
    V.adapt(x)
    seen = features(V._gathered(x))
    assert 2.45 < seen.max() < 2.55 and -2.55 < seen.min() < -2.45
    y, slope = sample(2, 3), sample(1)
    assert_close(features.pulled_back(y, slope), torch.func.vjp(features, y)[1](slope)[0])


def model_of(topology, bodies=6, **arguments):
    eye = torch.eye(bodies)
    P = torch.block_diag(eye, -eye)
    mirror = -eye.flip(0)
    rhos = [P, torch.block_diag(mirror, -mirror)] if topology != "pairs" else [P]
    return SymplecticFeedForward(
        dim=2 * bodies,
        bodies=bodies,
        topology=topology,
        depth=2,
        reversing_symmetries=rhos,
        translations=topology != "walls",
        **arguments,
    )


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("functions", ["neurons", "polynomial"])
@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_models_are_symplectic_reversible_and_keep_momentum(topology, functions, seed):
    torch.manual_seed(seed)
    model = model_of(topology, functions=functions, degree=3, width=3, reach=2)
    model = randomise(model, 0.2, seed)
    z = sample(12, seed=seed, scale=0.5)
    D = jacobian(lambda z: model(z.unsqueeze(0))[0], z)
    J = nn.canonical_form(12)
    assert_close(D.mT @ J @ D, J, 1e-12 * max(1.0, float(D.abs().max()) ** 2))
    new = model(z.unsqueeze(0))
    assert_close(model.inverse(new)[0], z, 1e-11 * max(1.0, float(new.detach().abs().max())))
    for rho in model.reversing_symmetries:
        assert_close(model(new @ rho.mT)[0] @ rho.mT, z, 1e-10)
    if topology != "walls":
        size = max(1.0, float(new.detach().abs().max()))
        assert_close(new[0, 6:].sum(), z[6:].sum(), 1e-13 * size)


def turned(angle, z):
    """All vectors of states (..., dim) in the plane turned."""
    c, s = np.cos(angle), np.sin(angle)
    Q = torch.tensor([[c, -s], [s, c]], dtype=torch.float64)
    return (z.unflatten(-1, (-1, 2)) @ Q.mT).flatten(-2)


@pytest.mark.parametrize("bodies", [1, 3])
def test_windows_of_bodies_keep_the_form_and_momenta_in_every_time_step(bodies):
    torch.manual_seed(0)
    half = 2 * bodies
    P = torch.diag(torch.tensor([1.0] * half + [-1.0] * half))
    model = SymplecticTransformer(
        dim=2 * half,
        window=3,
        prediction_window=3,
        depth=1,
        bodies=bodies,
        topology="pairs",
        rotations=True,
        translations=bodies > 1,
        lengths="squares",
        width=3,
        reversing_symmetries=[P],
    )
    model = randomise(model, 0.3, 1)
    X = sample(3, 2 * half, scale=0.5)
    assert symplecticity_defect(model, X) <= 1e-12
    Y = model(X).detach()
    assert (Y - X).abs().max() > 1e-2
    assert_close(model.inverse(Y), X, 1e-11)
    assert_close(model(turned(0.7, X)), turned(0.7, Y))
    if bodies == 1:  # angular momentum of the window as a whole
        before, after = (Z[:, 0] * Z[:, 3] - Z[:, 1] * Z[:, 2] for Z in (X, Y))
        assert_close(before.sum(), after.sum(), 1e-12)
        return
    before, after = (Z[:, half:].unflatten(-1, (bodies, 2)).sum(1) for Z in (X, Y))
    assert_close(before, after, 1e-12)
    shift = torch.tensor([1.5, -1.0] * bodies + [0.0] * half, dtype=torch.float64)
    assert_close(model(X + shift), Y + shift)
    larger = with_bodies(model, 5)
    assert symplecticity_defect(larger, sample(3, 20, scale=0.3)) <= 1e-11


@pytest.mark.parametrize("topology", ["ring", "chain", "walls"])
def test_weights_do_not_know_the_number_of_bodies(topology):
    model = randomise(model_of(topology, width=3, reach=1), 0.2, 0)
    model.set_normalisation(0.0, 2.0)
    larger = with_bodies(model, 11)
    assert larger.dim == 22
    assert with_bodies(larger, 6).arguments == model.arguments
    z = sample(22)
    for rho in larger.reversing_symmetries:
        back = larger(larger(z.unsqueeze(0)) @ rho.mT)[0] @ rho.mT
        assert_close(back, z, 1e-11)
    assert_close(with_bodies(larger, 6)(z[:12].unsqueeze(0)), model(z[:12].unsqueeze(0)), 0)


def test_more_clusters_than_fit_are_refused_before_they_are_made():
    with pytest.raises(InputError, match="more than 600,000 clusters of 2"):
        nn.clusters("pairs", 10**6, 2)


def test_another_number_of_bodies_is_refused_where_it_means_nothing():
    with pytest.raises(InputError, match="as a whole"):
        with_bodies(SymplecticFeedForward(dim=4), 3)
    with pytest.raises(InputError, match="not all alike"):
        with_bodies(SymplecticFeedForward(dim=4, bodies=2, topology="pairs", species=[0, 1]), 3)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"topology": "ring"}, "say how many"),
        ({"bodies": 3}, "equally many"),
        ({"bodies": 2, "species": [0]}, "each of 2 bodies"),
        ({"bodies": 2, "topology": "walls", "translations": True}, "no translations"),
        ({"bodies": 2, "topology": "ring"}, "needs 3 bodies"),
        ({"bodies": 2, "layer": "henon"}, "knows no bodies"),
        ({"bodies": 2, "functions": "polynomial", "periodic": [(0, 1.0)]}, "no angles"),
    ],
)
def test_bodies_that_do_not_fit_are_refused(arguments, words):
    with pytest.raises(InputError, match=words):
        SymplecticFeedForward(dim=4, **arguments)


@pytest.mark.parametrize("logarithms", [False, True])
def test_bounded_variables_are_the_same_inside_and_level_off_outside(logarithms):
    options = {"translations": True, "rotations": True, "logarithms": logarithms}
    plain = nn.ClusterFeatures(2, 2, **options)
    bounded = nn.ClusterFeatures(2, 2, bounded=True, **options)
    seen = torch.stack([torch.zeros(50, 2), 1 + torch.rand(50, 2)], -2).double()
    group = torch.eye(1, dtype=torch.float64).unsqueeze(0)
    for features in (plain, bounded):
        features.adapt(seen, group)
    assert_close(bounded(seen), plain(seen), 0)
    far = torch.tensor([[[0.0, 0], [1e-6, 0]], [[0, 0], [1e6, 1e6]]], dtype=torch.float64)
    assert float(plain(far).abs().max()) > 10
    assert float(bounded(far).abs().max()) <= 6.0 + 1e-12
    # the derivative is that of the variables, everywhere
    for y in (seen[0], far[0], far[1]):
        slope = torch.ones(1, dtype=torch.float64)
        assert_close(bounded.pulled_back(y, slope), torch.func.jacrev(bounded)(y)[0])
