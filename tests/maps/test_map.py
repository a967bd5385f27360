"""Maps: states do not depend on the chunks, and derivatives are those of the map."""

import numpy as np
import pytest
import torch

import vpintegrator as vp
from tests.rollout.systems import as_map, initial, system
from vpintegrator.compiled import machine_code
from vpintegrator.dynamics import Structure
from vpintegrator.errors import InputError
from vpintegrator.models import VolumePreservingFeedForward, VolumePreservingTransformer


def model(window, prediction_window=None):
    torch.manual_seed(0)
    if window == 1:
        return VolumePreservingFeedForward(dim=3)
    return VolumePreservingTransformer(
        dim=3, window=window, prediction_window=prediction_window, width=4
    )


class Turn(vp.Map):
    """Map of two states of one's own: only ``map`` is defined."""

    dim, step, window, prediction_window = 3, 0.2, 2, 1

    def map(self, windows):
        new = windows[:, 1:] + 0.1 * np.roll(windows[:, :1], 1, axis=2)
        return np.concatenate([windows[:, 1:], new], axis=1)


MAPS = {
    "rk4": "rk4",
    "implicit-midpoint": "implicit-midpoint",
    "one step": model(1),
    "window": model(3),
    "shorter prediction": model(5, 3),
    "own": Turn(),
    "function": vp.Map.from_function(lambda z: np.roll(z, 1, axis=1) + 0.1 * z, 0.2, 3),
}


def case(name, count=3):
    map = as_map(MAPS[name], system("rigid-body"), 0.2 if name not in ("own", "function") else None)
    states = vp.integrate(system("rigid-body"), "rk4", initial("rigid-body", count), 0.2, 8)
    return map, states[:, : map.window]


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("chunk", [1, 2, 7, 40])
def test_chunks_change_nothing(name, chunk):
    map, first = case(name)
    whole = np.concatenate([*map.advance(first, 23)], axis=1)
    chunks = [*map.advance(first, 23, chunk=chunk)]
    new = map.map(first)[:, -map.prediction_window :]
    np.testing.assert_allclose(whole[:, : map.prediction_window], new, atol=1e-15)
    assert whole.shape == (3, 23, 3) and max(each.shape[1] for each in chunks) <= chunk
    np.testing.assert_array_equal(np.concatenate(chunks, axis=1), whole)


@pytest.mark.parametrize("name", MAPS)
def test_derivative_against_differences(name):
    map, first = case(name)
    eps, size, columns = 1e-6, map.window * map.dim, []
    for direction in eps * np.eye(size):
        shift = direction.reshape(map.window, map.dim)
        difference = map.map(first + shift) - map.map(first - shift)
        columns.append(difference.reshape(len(first), size) / (2 * eps))
    np.testing.assert_allclose(map.derivative(first), np.stack(columns, axis=-1), atol=1e-8)


@pytest.mark.parametrize("name", ["rk4", "one step", "window"])
def test_machine_code_is_the_same_map(name):
    map, first = case(name)
    machine = machine_code(map, first[:, 0], True)
    assert machine.name == map.name and machine.structure == map.structure
    np.testing.assert_allclose(
        next(machine.advance(first, 50)), next(map.advance(first, 50)), atol=1e-12
    )
    assert machine_code(MAPS["own"], first[:, 0]) is MAPS["own"]


def test_wrong_functions_are_refused():
    with pytest.raises(InputError, match="gives shape"):
        vp.Map.from_function(lambda z: z[:, :1], 0.1, 2).map(np.ones((4, 1, 2)))
    with pytest.raises(InputError, match="positive"):
        vp.Map.from_function(lambda z: z, 0.0, 2)
    with pytest.raises(InputError, match="made of a function"):
        vp.Map.from_function(3, 0.1, 2)


def test_an_own_map_is_compared():
    pendulum, h = system("pendulum"), 0.1

    def verlet(z):
        p = z[:, 1] - h / 2 * np.sin(z[:, 0])
        q = z[:, 0] + h * p
        return np.stack([q, p - h / 2 * np.sin(q)], axis=1)

    own = vp.Map.from_function(verlet, h, 2, structure=Structure("symplectic"))
    report = vp.compare(own, ["stoermer-verlet"], system=pendulum, steps=40, trajectories=3)
    mine, theirs = report.runs["verlet"], report.runs["stoermer-verlet"]
    assert (mine.kind, mine.structure.form) == ("own", "symplectic")
    np.testing.assert_allclose(mine.states, theirs.states, atol=1e-13)
    assert mine.symplecticity < 1e-8 and mine.volume["step"].largest < 1e-8
    rk4 = vp.classical("rk4", pendulum, h)
    same = vp.compare(None, [rk4, own], system=pendulum, step=h, steps=5)
    assert [*same.runs] == ["rk4", "verlet"]
    code = machine_code(as_map(MAPS["one step"], system("rigid-body"), 0.2), np.ones((1, 3)), True)
    assert vp.compare({"code": code}, (), steps=3, trajectories=2).runs["code"].kind == "learned"
    assert vp.rollout(code, np.ones((2, 3)), 4).shape == (2, 5, 3)
    with pytest.raises(InputError, match="one step"):
        vp.compare(own, "rk4", system=pendulum, step=0.2, steps=3)
