"""Datasets of maps: generated, extended where parameters vary, inspected."""

import numpy as np
import pytest

import vpintegrator as vp
from tests.dynamics.test_discrete import KICKED
from vpintegrator.data.inspection import inspect_dataset
from vpintegrator.errors import InputError


def test_a_dataset_of_a_map_holds_its_iterates(tmp_path):
    dataset = vp.generate(KICKED, tmp_path / "map.h5", count=20)
    system, states = dataset.system, dataset.states("train")
    assert dataset.step == 1 and states.shape[1:] == (6, 2)
    assert np.array_equal(system.map(states[:, :-1]), states[:, 1:])
    assert "solver" not in dataset.attributes and "[solver]" not in dataset.recipe
    assert dataset.accuracy == {"invariant_drift": {}}
    again = vp.generate(dataset.recipe, tmp_path / "again.h5")
    assert again.fingerprint == dataset.fingerprint
    found = inspect_dataset(dataset)["train"]
    assert not found.missing and found.changes == {}
    many = vp.generate(KICKED, tmp_path / "many.h5", count=3000, steps=3).states("train")
    assert np.array_equal(many[:, -1], vp.solve(system, many[:, 0], [0, 3])[:, 1])


def extended_states(dataset):
    """Training states with the coefficients of their trajectory."""
    states, k = dataset.states("train"), dataset.family.components(dataset.conditions("train"))
    beside = np.broadcast_to(k[:, None], (*states.shape[:2], k.shape[1]))
    return np.concatenate([states, beside], -1)


def test_a_family_of_maps_is_one_of_its_parameters(tmp_path):
    vary = {"K": [0.2, 0.5]}
    dataset = vp.generate(KICKED, tmp_path / "family.h5", count=30, vary=vary)
    family = dataset.family
    assert family.coefficients == ["z[0]"] and family.vanishing == []
    assert family.extended.components == ("q", "p", "K") and family.extended.is_canonical
    states = extended_states(dataset)
    assert np.array_equal(family.extended.map(states[:, :-1]), states[:, 1:])
    model = vp.models.build(
        family.extended, arguments={"functions": "polynomial", "degree": 3, "depth": 2}
    )
    assert model.name == "spff" and model.structure.is_symplectic


@pytest.mark.parametrize("change", [{"step": 0.5}, {"vary": {"step": [0.1, 0.2]}}])
def test_a_step_of_a_map_is_one_iteration(tmp_path, change):
    with pytest.raises(InputError, match="one iteration"):
        vp.generate(KICKED, tmp_path / "map.h5", **change)


def test_a_dataset_of_a_return_map(tmp_path):
    system = vp.return_map("henon-heiles", "q[0] = 0", energy=0.1)
    dataset = vp.generate(system, tmp_path / "map.h5", count=30, steps=4)
    states = dataset.states("train")
    assert dataset.step == 1 and dataset.system.components == ("q[1]", "p[1]")
    assert dataset.system.map(states[:, :-1]) == pytest.approx(states[:, 1:], abs=1e-11)
    assert dataset.attributes["rtol"] == 1e-13 and dataset.accuracy["estimated_error"] < 1e-9
    again = vp.generate(dataset.recipe, tmp_path / "again.h5")
    assert again.fingerprint == dataset.fingerprint
    other = vp.load_recipe(system, parameters={"energy": 0.05})
    assert other.system.parameters == {"energy": 0.05}


def test_a_family_of_return_maps(tmp_path):
    for system, vary in (
        (vp.return_map("henon-heiles", "q[0] = 0", energy=0.1), {"energy": [0.04, 0.12]}),
        (vp.return_map("forced-duffing", "t = 0"), {"gamma": [0.02, 0.06], "omega": [1.2, 1.6]}),
    ):
        dataset = vp.generate(system, tmp_path / f"{system.name}.h5", count=12, steps=2, vary=vary)
        extended = dataset.family.extended
        assert dataset.family.vanishing == [] and extended.is_canonical
        assert extended.components[2:] == tuple(vary)
        states = extended_states(dataset)
        assert extended.map(states[:, 0]) == pytest.approx(states[:, 1], abs=1e-11)
        model = vp.models.build(
            extended, arguments={"functions": "polynomial", "degree": 3, "depth": 2}
        )
        assert model.structure.is_symplectic
