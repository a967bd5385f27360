"""The domain of training: what is kept of it, and who leaves it."""

from dataclasses import asdict

import numpy as np
import pytest

import vpintegrator as vp
from tests.rollout.systems import system
from vpintegrator.dynamics.training_domain import Domain
from vpintegrator.errors import InputError
from vpintegrator.plotting.tables import markdown_table

PENDULUM = """
state = ["q", "p", "k"]
periodic = { q = "2*pi" }
vector_field = { q = "p", p = "-sin(q)", k = "0*q" }
invariants = { energy = "p**2/2 - cos(q)" }
"""


@pytest.fixture
def body():
    return system("rigid-body")


@pytest.fixture
def model(body):
    """One that stays where it is, trained on a box of states."""
    model = vp.models.VolumePreservingFeedForward(dim=3, functions="polynomial", degree=2)
    states = np.random.default_rng(0).uniform(-1, 1, size=(50, 4, 3))
    domain = Domain.of_states(states, body)
    model.origin = vp.models.Origin(body, 0.2, domain=domain)
    return model


def test_ranges_of_components_and_invariants():
    s = vp.System(PENDULUM, "angle")
    states = np.random.default_rng(0).normal(size=(5, 7, 3)) * [3, 1, 1e-14]
    states[2, 3:] = np.nan
    domain = Domain.of_states(states, s)
    seen = states.reshape(-1, 3)[np.isfinite(states).all(-1).ravel()]
    energy = seen[:, 1] ** 2 / 2 - np.cos(seen[:, 0])
    # an angle has no bounds, and what is nothing but rounding is left out
    assert domain.components == {"p": (seen[:, 1].min(), seen[:, 1].max())}
    assert [*domain.components, *domain.invariants] == ["p", "energy"]
    np.testing.assert_allclose(
        domain.invariants["energy"], [energy.min(), energy.max()], rtol=1e-15
    )
    assert Domain.of_ranges(asdict(domain), "here") == domain


@pytest.mark.parametrize(
    "stored", [{"components": {"x": [1]}}, {"components": {"x": [2, 1]}}, {"invariants": 3}, [], 1]
)
def test_a_damaged_domain_is_refused_where_it_is_read(stored):
    with pytest.raises(InputError, match="the file: a quantity must have"):
        Domain.of_ranges(stored, "the file")


def test_training_writes_the_region(tmp_path):
    data = vp.generate("rigid-body", tmp_path / "data.h5", count=20, steps=3)
    model = vp.models.VolumePreservingFeedForward(dim=3, functions="polynomial", degree=2)
    vp.train(model, data, epochs=1, compiled=False)
    states = data.states("train").reshape(-1, 3)
    assert model.domain.components["z2"] == (states[:, 1].min(), states[:, 1].max())
    assert set(model.domain.invariants) == set(data.system.invariants)


def compared(model, body, against="rk4"):
    initial = [[0.3, 0.2, 0.1], [0.0, 1.5, 0.9], [0.1, -0.4, 0.2]]
    return vp.compare(model, against, system=body, initial=initial, steps=30, compiled=False)


def test_leaving_is_marked_and_survives_the_file(model, body, tmp_path):
    report = compared(model, body)
    report.save(tmp_path / "rollout.h5")
    assert "1 of 3" in markdown_table(report) and "Left the training" in markdown_table(report)
    for r in (report, vp.open_rollout(tmp_path / "rollout.h5")):
        times = r.run("vpff").departure_time
        assert times[1] == 0.0 and np.isnan(times[[0, 2]]).all()
        row, classical = r.table()
        assert (row["left domain"], row["left domain at"]) == (1, 0.0)
        assert classical["left domain"] is None and r.run("rk4").departure_time is None
