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
    model = vp.models.build(
        dataset.system, arguments={"functions": "polynomial", "degree": 5, "depth": 1}
    )
    vp.train(model, dataset, epochs=20, compiled=False)
    return model


def test_the_reference_is_the_map(model, tmp_path):
    report = vp.compare(model, steps=12, trajectories=3, compiled=False)
    initial = report.reference[:, 0]
    assert np.array_equal(report.reference, vp.solve(report.system, initial, np.arange(13)))
    assert not report.reference_error.any()
    run = report.runs[model.name]
    assert run.structure.words == ("symplectic", "reversible")
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
    model = vp.models.build(system, arguments={"functions": "polynomial", "degree": 3, "depth": 2})
    vp.train(model, dataset, epochs=3, compiled=False)
    report = vp.compare(model, steps=5, trajectories=3, compiled=False)
    assert report.system.flow is not None and 0 < report.reference_error.max() < 1e-9
    images = system.map(report.reference[:, :-1])
    assert images == pytest.approx(report.reference[:, 1:], abs=1e-11)
    report.save(tmp_path / "rollout.h5")
    again = vp.open_rollout(tmp_path / "rollout.h5")
    assert again.system.equations.returns.words == system.equations.returns.words


def test_methods_go_over_the_period_beside_a_stroboscopic_map():
    system = vp.return_map("forced-duffing", "t = 0")
    against = ["rk4", "rk4@60", "stoermer-verlet@400", "dop853-1e-10", "gauss-legendre-4@60"]
    report = vp.compare(None, against, system=system, steps=6, trajectories=3)
    run = report.runs
    assert list(run) == against
    steps = round(system.flow.period / system.flow.defaults["step"])
    assert run["rk4"].title.endswith(f", {steps} steps") and run["rk4@60"].title.endswith(
        "60 steps"
    )
    assert run["stoermer-verlet@400"].structure.form == "symplectic"
    for name in against:
        assert np.abs(run[name].states - report.reference).max() < 0.02
    assert np.abs(run["dop853-1e-10"].states - report.reference).max() < 1e-7
    twice = vp.load_system(system.text + "crossings = 2")
    other = vp.compare(None, "rk4@60", system=twice, steps=3, initial=report.reference[:, 0])
    assert other.runs["rk4@60"].states == pytest.approx(run["rk4@60"].states[:, ::2], abs=1e-12)


@pytest.mark.parametrize("name", ["rk4@20", "implicit-midpoint@15"])
def test_a_method_over_the_period_is_a_map(name):
    system = vp.return_map("forced-duffing", "t = 0")
    map = vp.classical(name, system)
    z = system.sample_initial(4, np.random.default_rng(0))[:, None]
    shifts = 1e-5 * np.eye(2)[:, None, None]
    slopes = np.stack([(map.map(z + s) - map.map(z - s))[:, 0] / 2e-5 for s in shifts], -1)
    assert map.derivative(z) == pytest.approx(slopes, rel=1e-6, abs=1e-6)
