"""Models of maps are compared with the maps themselves."""

import numpy as np
import pytest

import vpintegrator as vp
from tests.dynamics.test_discrete import KICKED
from vpintegrator.errors import InputError


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("map")
    dataset = vp.generate(KICKED, folder / "map.h5", count=60)
    model = vp.models.build(dataset.system, functions="polynomial", degree=5, depth=1)
    vp.train(model, dataset, epochs=20, compiled=False)
    return model


def test_the_reference_is_the_map(model, tmp_path):
    report = vp.compare(model, steps=12, trajectories=3, compiled=False)
    initial = report.reference[:, 0]
    assert np.array_equal(report.reference, vp.solve(report.system, initial, np.arange(13)))
    assert not report.reference_error.any()
    run = report.runs[model.name]
    assert run.structure == ("symplectic", "volume-preserving", "reversible")
    report.save(tmp_path / "rollout.h5")
    assert vp.open_rollout(tmp_path / "rollout.h5").system.is_discrete


def test_classical_methods_refuse(model):
    with pytest.raises(InputError, match="rk4 needs a vector field"):
        vp.compare(model, "rk4", steps=3)
    methods, reasons = vp.rollout.applicable_methods(vp.load_system(KICKED))
    assert not methods and "is a map" in reasons["rk4"]
    with pytest.raises(InputError, match="one iteration"):
        vp.compare(None, system=vp.load_system(KICKED), step=0.5)


def test_models_of_return_maps_are_beside_the_exact_map(tmp_path):
    system = vp.return_map("forced-duffing", "t = 0")
    dataset = vp.generate(system, tmp_path / "map.h5", count=30, steps=1)
    model = vp.models.build(system, functions="polynomial", degree=3, depth=2)
    vp.train(model, dataset, epochs=3, compiled=False)
    report = vp.compare(model, steps=5, trajectories=3, compiled=False)
    assert report.system.flow is not None and 0 < report.reference_error.max() < 1e-9
    images = system.map(report.reference[:, :-1])
    assert images == pytest.approx(report.reference[:, 1:], abs=1e-11)
    report.save(tmp_path / "rollout.h5")
    again = vp.open_rollout(tmp_path / "rollout.h5")
    assert again.system.equations.returns.words == system.equations.returns.words
