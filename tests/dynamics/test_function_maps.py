"""Maps given as Python functions."""

import math
import pickle

import numpy as np
import pytest
import torch

import vpintegrator as vp

CELLS = 20
STRENGTHS = np.random.default_rng(1).normal(size=CELLS)


def standard(x, px, K=0.6):
    """The standard map."""
    px = px + K * np.sin(x)
    return x + px, px


def ring(z):
    """A turn of a ring of cells with thin sextupoles, z = (x, y, px, py)."""
    x, y, px, py = (z[..., i] for i in range(4))
    for k in STRENGTHS:
        x, px = rotated(x, px, 2 * math.pi * 0.31 / CELLS)
        y, py = rotated(y, py, 2 * math.pi * 0.17 / CELLS)
        px, py = px - k * (x**2 - y**2), py + 2 * k * x * y
    return np.stack([x, y, px, py], axis=-1)


def rotated(x, px, angle):
    return math.cos(angle) * x + math.sin(angle) * px, math.cos(angle) * px - math.sin(angle) * x


def kicked(z):
    x, p = z[..., 0], z[..., 1]
    p = p - (0.5 + 0.5 * (x > 0)) * x
    return np.stack([x + p, p], axis=-1)


def test_the_same_map_as_a_function_and_as_a_file():
    map = vp.Map.from_function(
        standard, 2, ["x", "px"], parameters={"K": 0.6}, periodic=["x"], name="standard"
    )
    assert (map.structure, map.parameters, map.description) == (
        "symplectic map",
        {"K": 0.6},
        "The standard map.",
    )
    file = vp.load_system("""
        state = ["x", "px"]
        parameters = { K = 0.6 }
        periodic = { x = "2*pi" }
        [[map]]
        px = "px + K*sin(x)"
        [[map]]
        x = "x + px"
    """)
    states = np.random.default_rng(0).normal(size=(5, 2))
    np.testing.assert_allclose(map.map(states), file.map(states), rtol=1e-14)
    np.testing.assert_allclose(map.map_jacobian(states), file.map_jacobian(states), rtol=1e-14)
    orbits = [vp.solve(system, states, np.arange(20)) for system in (map, file)]
    np.testing.assert_allclose(*orbits, rtol=1e-9)
    assert map.with_parameters({"K": 0.9}).parameters == {"K": 0.9}
    assert isinstance(pickle.loads(pickle.dumps(map)), vp.System)


@pytest.mark.thorough
def test_a_ring_becomes_formulas_of_its_cells(tmp_path):
    given = {"components": ["x", "y", "px", "py"], "sample": (-0.1, 0.1)}
    map = vp.Map.from_function(ring, structure="symplectic", **given)
    assert (map.structure, map.has_formulas) == ("symplectic map", True)
    states = map.sample_initial(6, np.random.default_rng(0))
    np.testing.assert_allclose(map.map(states), ring(states), rtol=1e-12, atol=1e-15)
    data = vp.generate(map, tmp_path / "ring.h5", count=30, steps=5)
    model = vp.models.build(data.system, "sgf", degree=4)
    vp.train(model, data, optimizer="linear")
    path = vp.export(model, tmp_path / "ring.c")
    assert "ring" in data.system.name
    assert (tmp_path / "ring.c").exists(), path

    def neighbours(z):
        return ring(z[..., [0, 2, 1, 3]])[..., [0, 2, 1, 3]]

    names = ["x", "px", "y", "py"]
    other = vp.Map.from_function(neighbours, 4, names, structure="symplectic", sample=(-0.1, 0.1))
    assert other.canonical.components == map.components
    with pytest.raises(vp.InputError, match="name the components x, px, y, py, or reorder them"):
        vp.Map.from_function(neighbours, 4, structure="symplectic", sample=(-0.1, 0.1))


def test_a_map_with_decisions_is_called(tmp_path):
    map = vp.Map.from_function(kicked, 2, ["q", "p"], structure="symplectic", sample=(-0.5, 0.5))
    assert not map.has_formulas
    assert (map.structure, map.derivatives) == ("symplectic map", "finite differences")
    states = map.sample_initial(5, np.random.default_rng(0))
    np.testing.assert_array_equal(map.map(states), kicked(states))
    tensor = map.map(torch.from_numpy(states))
    np.testing.assert_array_equal(tensor.numpy(), kicked(states))
    data = vp.generate(map, tmp_path / "kicked.h5", count=20, steps=6)
    assert vp.open_dataset(data.path).system.structure == "measured, symplectic"
    np.testing.assert_allclose(data.states("train")[:, 1], kicked(data.states("train")[:, 0]))
    model = vp.models.build(data.system, "spff", depth=1, width=4)
    vp.train(model, data, epochs=2, compiled=False)
    report = vp.compare(model, system=map, steps=8, trajectories=2, compiled=False)
    assert report.runs["spff"].states.shape == (2, 9, 2)
    again = pickle.loads(pickle.dumps(map))
    np.testing.assert_array_equal(again.map(states), map.map(states))


def test_arguments_are_components_or_the_state():
    turns = [
        lambda x, p: (x + p, p),
        lambda z: [z[0] + z[1], z[1]],
        lambda z: torch.stack([z[..., 0] + z[..., 1], z[..., 1]], -1),
        lambda x, p: (x + p, p if float(p) > 9 else p * 1),
    ]
    for turn in turns:
        map = vp.Map.from_function(turn, 2)
        np.testing.assert_array_equal(map.map([[1.0, 2.0]]), [[3.0, 2.0]])
        assert map.structure == "symplectic map"


@pytest.mark.parametrize("crooked", [False, True])
@pytest.mark.parametrize(
    ("claim", "message"),
    [
        ({"structure": "symplectic"}, "form dq dp is kept fails by 1.5 at x1 = "),
        ({"structure": "volume-preserving"}, "determinant of the derivative is 1 fails by"),
        ({"invariants": {"r": lambda z: z[0]}}, "r: this is not constant, the map changes it by"),
        ({"reversing_symmetries": [[1, 1]]}, "rho M rho M = identity fails by"),
        ({"periodic": {"x1": 1.0}}, "image changes"),
        ({"structure": "sympletic"}, "did you mean 'symplectic'"),
    ],
)
def test_wrong_claims_are_refused_with_a_state(claim, message, crooked):
    def smooth(z):
        return np.array([z[1], 0.5 * z[0]])

    def decided(z):
        return np.array([z[1], 0.5 * z[0] if z[0] > -9 else z[0]])

    with pytest.raises(vp.InputError, match=message):
        vp.Map.from_function(decided if crooked else smooth, 2, **claim)


@pytest.mark.parametrize(
    ("turn", "options", "message"),
    [
        (None, {"dim": 2}, "turn must be a function"),
        (lambda z: z, {}, "say how many components"),
        (lambda a, b, c: a, {"dim": 2}, "a state of 2 components, or each by itself"),
        (lambda z: z[:1], {"dim": 2}, "shape"),
        (lambda z: z * np.nan, {"dim": 2}, "no finite value"),
        (lambda z: z, {"dim": 3, "structure": "symplectic"}, "positions and as many momenta"),
    ],
)
def test_what_is_no_map_is_refused_in_a_sentence(turn, options, message):
    with pytest.raises(vp.InputError, match=message):
        vp.Map.from_function(turn, **options)


def test_parameters_change_one_after_the_other():
    def turn(x, px, K=0.6, a=1.0):
        px = px + K * np.sin(a * x)
        return x + px, px

    standard = vp.Map.from_function(turn, dim=2, parameters={"K": 0.6, "a": 1.0})
    changed = standard.with_parameters({"K": 0.1}).with_parameters({"a": 2.0})
    assert changed.parameters == {"K": 0.1, "a": 2.0}
