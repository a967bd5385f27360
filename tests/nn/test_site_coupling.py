"""Couplings along a ring: colours, neighbours, the same at each site."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import vpintegrator as vp
from tests.nn.laws import assert_close, jacobian, sample
from vpintegrator.errors import InputError
from vpintegrator.nn import SiteCoupling
from vpintegrator.nn.site_coupling import colours

RINGS = st.integers(1, 3).flatmap(lambda r: st.tuples(st.integers(2 * r + 1, 20), st.just(r)))


@given(RINGS)
def test_sites_of_a_colour_are_farther_apart_than_the_reach(ring):
    sites, reach = ring
    found = colours(sites, reach)
    assert sorted(site for colour in found for site in colour) == list(range(sites))
    for colour in found:
        for a in colour:
            apart = [min((a - b) % sites, (b - a) % sites) for b in colour if b != a]
            assert all(distance > reach for distance in apart)


@pytest.mark.parametrize("fields", [1, 2])
def test_each_shear_sees_neighbours_alone(fields):
    torch.manual_seed(0)
    layer = SiteCoupling(8 * fields, 8, 2, 1, initial_scale=1.0)
    z = sample(8 * fields)
    for i, block in enumerate(layer.blocks):
        D = jacobian(lambda x, i=i: layer.move(x, i), z)
        near = torch.zeros_like(D, dtype=torch.bool)
        for place in block:
            for turn in (-1, 0, 1):
                columns = [field * 8 + (place + turn) % 8 for field in range(fields)]
                near[place, [c for c in columns if c != place]] = True
        assert bool((D[~near] == 0).all()) and bool((D[near] != 0).any())


def test_sites_are_alike_up_to_the_colours():
    torch.manual_seed(0)
    layer, z = SiteCoupling(12, 12, 3, 2, initial_scale=0.1, symmetric=True), sample(5, 12)
    assert_close(layer(z.roll(3, -1)), layer(z).roll(3, -1), 1e-13)


def test_few_pairs_suffice_for_a_nonlinear_ring(tmp_path):
    """Lorenz-96 without forcing and damping, whose divergence is zero: 24 sites, 40 pairs."""
    u = np.random.default_rng(0).normal(size=(40, 24))
    before, step, parts = u, 0.02, 8
    for _ in range(parts):  # Runge-Kutta steps
        field = [lorenz(u)]
        for factor in (0.5, 0.5, 1.0):
            field.append(lorenz(u + factor * step / parts * field[-1]))
        u = u + step / parts * (field[0] + 2 * field[1] + 2 * field[2] + field[3]) / 6
    data = vp.import_pairs(
        before, u, tmp_path / "a.h5", structure="volume-preserving", topology="ring"
    )
    model = vp.models.build(data.system, functions="polynomial", degree=2, depth=2)
    assert model.arguments["sites"] == 24 and sum(p.numel() for p in model.parameters()) == 90
    history = vp.train(model, data, epochs=4, compiled=False)
    assert history.test_error < 1e-3
    vp.save(model, tmp_path / "m.safetensors")
    z = sample(3, 1, 24)
    assert_close(vp.load(tmp_path / "m.safetensors")(z), model(z), 0)
    assert_close(model.inverse(model(z)), z, 1e-12)


def lorenz(u):
    return (np.roll(u, -1, 1) - np.roll(u, 2, 1)) * np.roll(u, 1, 1)


def test_refusals():
    with pytest.raises(InputError, match="needs 5 sites or more"):
        SiteCoupling(4, 4, reach=2)
    with pytest.raises(InputError, match="not of 3 sites alike"):
        SiteCoupling(4, 3, reach=1)
    with pytest.raises(InputError, match="leave out sites"):
        vp.models.VolumePreservingFeedForward(dim=6, sites=6)
