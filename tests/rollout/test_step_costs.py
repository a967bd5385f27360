"""Errors and costs of a step in a comparison, beside methods of the same error."""

import numpy as np
import pytest

import vpintegrator as vp
from vpintegrator.measure.steps import applicable_methods
from vpintegrator.rollout.diagnostics import cost


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    data = vp.generate("pendulum", tmp_path_factory.mktemp("costs") / "pendulum.h5", count=20)
    model = vp.models.build(data.system, "sgf", {"degree": 5})
    vp.train(model, data, optimizer="linear")
    return model


def test_methods_take_the_fewest_substeps(trained, monkeypatch, tmp_path):
    monkeypatch.setattr(cost, "applicable_methods", applicable_methods)
    report = vp.compare({"map": trained}, "rk4", steps=40, trajectories=3)
    (model,) = report.step_table.models
    states = report.reference[:, :-1].reshape(-1, 2)
    images = report.reference[:, 1:].reshape(-1, 2)
    spread = np.linalg.norm(report.reference.std((0, 1)))

    def error(method, substeps):
        step = report.step / substeps
        found = vp.integrate(report.system, method, states, step, substeps)[:, -1]
        return np.sqrt(((found - images) ** 2).sum(1).mean()) / spread

    rivals = {rival.name: rival for rival in model.rivals}
    assert {"rk4", "dormand-prince-8", "blanes-moan-6"} <= {*rivals}
    for name, substeps in ((n, rivals[n].substeps) for n in ("rk4", "dormand-prince-8")):
        assert error(name, substeps) < 1.1 * model.error  # at a part of the states
        assert substeps == 1 or error(name, substeps - 1) > 0.9 * model.error
    row = report.table()[0]
    cheapest = min((r for r in model.rivals if r.cost > 0), key=lambda rival: rival.cost)
    assert row["cheapest at equal error"] == cheapest.words
    assert row["at times the cost"] == pytest.approx(cheapest.cost / model.cost, rel=0.05)
    assert report.table()[1]["error of a step"] == pytest.approx(error("rk4", 1), rel=0.1)
    report.save(tmp_path / "rollout.h5")
    again = vp.open_rollout(tmp_path / "rollout.h5")
    assert str(again.step_table) == str(report.step_table) and again.table() == report.table()


def test_maps_without_machine_code_are_marked(trained):
    report = vp.compare(trained, "rk4", steps=5, trajectories=2, compiled=False)
    marks = [row["not compiled"] for row in report.table()]
    assert marks == ["in PyTorch", "in NumPy"] and not report.step_table.sentences


def test_costs_of_training_stand_in_the_table(trained, tmp_path):
    data = vp.generate("pendulum", tmp_path / "pendulum.h5", count=20)
    fits = [vp.fit(data, [vp.training.search("vpff")], epochs=n, progress=False) for n in (2, 3)]
    report = vp.compare({"a": fits[0].model, "b": fits[1].model}, "rk4", steps=5, trajectories=2)
    for fit, row in zip(fits, report.table()[:2], strict=True):
        assert row["parameters"] == fit.parameters and row["epochs"] == fit.history.epochs
        assert row["training seconds"] == pytest.approx(fit.seconds, rel=0.01)
        assert row["trained as machine code"] == ("yes" if fit.history.compiled else "no")
    assert report.table()[2]["parameters"] is None
    report.save(tmp_path / "rollout.h5")
    assert vp.open_rollout(tmp_path / "rollout.h5").table() == report.table()
