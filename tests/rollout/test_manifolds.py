"""Manifolds of hyperbolic points: straight ones in closed form, and invariance of others."""

import matplotlib.figure
import numpy as np
import pytest
import torch

import vpintegrator as vp
from vpintegrator.errors import InputError

CAT = """
state = ["q", "p"]
divergence_free = true
[map]
q = "{sign}*(2*q + p) + {shift}"
p = "{sign}*(q + p)"
[[reversing_symmetry]]
q = "q"
p = "-q - p"
"""


def cat(sign=1, shift=0):
    text = CAT.format(sign=sign, shift=shift)
    if sign < 0 or shift:
        text = text[: text.index("[[reversing")]
    return vp.rollout.ExactMap(vp.load_system(text))


def test_those_of_a_linear_map_are_lines():
    flow = cat()
    found = vp.rollout.invariant_manifolds(flow, [0.1, 0.2], length=3.0, spacing=0.05)
    golden = (1 + np.sqrt(5)) / 2
    np.testing.assert_allclose(found.point, 0, atol=1e-12)
    np.testing.assert_allclose(found.multipliers, [golden**2, golden**-2])
    assert repr(found).startswith("<InvariantManifolds of (") and "and 0.382: " in repr(found)
    for branches, normal in ((found.unstable, [1, -golden]), (found.stable, [golden, 1])):
        ends = []
        for branch in branches:
            assert np.abs(branch @ normal).max() < 1e-9
            steps = np.linalg.norm(np.diff(branch, axis=0), axis=1)
            assert 2.9 < steps.sum() < 3.0 + 0.05 and steps.max() < 0.0501
            ends.append(branch[-1])
        np.testing.assert_allclose(ends[0], -ends[1], atol=0.1)


def test_the_standard_map_takes_them_to_themselves():
    system = vp.load_system("standard-map")
    flow = vp.rollout.ExactMap(system)
    found = vp.rollout.invariant_manifolds(flow, [0.05, 0.02], length=12.0, spacing=0.01)
    for branches, way in ((found.unstable, system.map), (found.stable, None)):
        curve = branches[0]
        inner = curve[: len(curve) // 4]
        if way is None:  # the image of a stable branch lies nearer to the point
            inner, way = curve[len(curve) // 4 :: 7], system.map
        images = way(inner)
        gaps = np.min(np.linalg.norm(images[:, None] - curve[None], axis=2), axis=1)
        assert gaps.max() < 0.01


@pytest.mark.thorough
def test_those_of_a_model_by_its_inverse():
    torch.manual_seed(0)
    model = vp.models.SymplecticFeedForward(dim=2, depth=2, width=4)
    flow = vp.rollout.as_flow(model, vp.load_system("pendulum"), 1.0)
    found = vp.rollout.invariant_manifolds(flow, [0.0, 0.0], length=1.0, spacing=0.01)
    for curve in (*found.unstable, *found.stable):
        inner = curve[len(curve) // 3 : len(curve) // 2]
        images = flow.map(inner[:, None])[:, 0]
        gaps = np.min(np.linalg.norm(images[:, None] - curve[None], axis=2), axis=1)
        assert gaps.max() < 0.01


def test_those_of_a_periodic_point():
    standard = vp.rollout.ExactMap(vp.load_system("standard-map", K=2.5))
    found = vp.rollout.invariant_manifolds(standard, [np.pi, np.pi], period=2, length=1.0)
    assert found.period == 2 and found.multipliers[0] < -1  # a reflection
    np.testing.assert_allclose(np.prod(found.multipliers), 1.0)


@pytest.mark.parametrize(
    ("make", "options", "said"),
    [
        (lambda: cat(), {"spacing": 2.0, "length": 1.0}, "0 < spacing < length"),
        (lambda: cat(shift=1), {}, "cannot be gone back"),
        (lambda: vp.rollout.ExactMap(vp.load_system("henon-map")), {}, "not hyperbolic"),
        (lambda: vp.rollout.as_flow("rk4", vp.load_system("rigid-body"), 0.1), {}, "no map of"),
    ],
)
def test_what_has_none(make, options, said):
    with pytest.raises(InputError, match=said):
        vp.rollout.invariant_manifolds(make(), [0.0, 0.0], **options)


def test_the_picture_has_gaps_where_angles_jump():
    system = vp.load_system("standard-map")
    found = vp.rollout.invariant_manifolds(vp.rollout.ExactMap(system), [0.0, 0.0], length=12.0)
    axes = matplotlib.figure.Figure().subplots()
    assert vp.plotting.manifolds(found, axes, system.periods) is axes
    assert [line.get_label() for line in axes.lines][:4:2] == ["unstable", "stable"]
    for line in axes.lines[:4]:
        x, y = line.get_data()
        assert np.nanmax(np.abs(x)) <= np.pi
        assert np.nanmax(np.hypot(np.diff(x), np.diff(y))) < 0.02
