"""What Python shows of the objects that a user holds, and of a training as it goes on."""

import io

import numpy as np
import pytest

import vpintegrator as vp
from vpintegrator.training.results import History, training_bar


def test_a_system_is_integrated_by_its_name(tmp_path):
    system = vp.load_system("pendulum")
    states = vp.integrate("pendulum", "rk4", [[1.0, 0.0]], 0.1, 5)
    np.testing.assert_array_equal(states, vp.integrate(system, "rk4", [[1.0, 0.0]], 0.1, 5))
    path = tmp_path / "mine.toml"
    path.write_text(system.text)
    np.testing.assert_array_equal(states, vp.integrate(path, "rk4", [[1.0, 0.0]], 0.1, 5))
    with pytest.raises(vp.InputError, match="pendulm"):
        vp.integrate("pendulm", "rk4", [[1.0, 0.0]], 0.1, 5)


def test_objects_say_what_they_are_in_a_line(tmp_path):
    system = vp.load_system("pendulum")
    data = vp.generate("pendulum", tmp_path / "data.h5", count=4, steps=5)
    model = vp.models.VolumePreservingFeedForward(dim=2, width=3, depth=1)
    history = vp.train(model, data, epochs=2, optimizer="adam", compiled=False)
    report = vp.compare({"net": model}, "rk4", steps=10, trajectories=3, compiled=False)
    run = report.runs["net"]
    reference = vp.rollout.solve_reference(system, np.array([[1.0, 0.0]]), np.array([0.0, 0.1]))
    for thing, words in (
        (system, "pendulum"),
        (system.invariants["energy"], "<energy: a function of states (..., 2)>"),
        (vp.load_recipe("pendulum"), "<Recipe pendulum: 1,000 train"),
        (data, "pendulum, step 0.2, train (2, 6, 2)"),
        (history, f"validation error {history.best_validation_error:.2e}"),
        (report, f"net (worst RMSE {report.summary('net').worst_error:.1e}), rk4 (worst"),
        (run, "<Run net (learned): 3 trajectories, worst RMSE"),
        (run.volume["step"], "|log|det|| at most"),
        (run.invariants["energy"], "<InvariantError: relative, at most"),
        (reference, "<Reference: 1 by 2 states, error about "),
    ):
        assert words in repr(thing)
        assert "\n" not in repr(thing) and len(repr(thing)) < 300


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_training_shows_progress_where_somebody_looks(monkeypatch):
    history = History("adam", 0, 1)
    history.add(0.5, 0.1, 0.2)

    def text(progress, stream):
        monkeypatch.setattr("sys.stderr", stream)
        with training_bar(progress, seconds=100.0) as update:
            update(history, 0.25, description="couplings", error="3.0e-01")
        return stream.getvalue()

    shown = text(None, Terminal())
    for words in ("couplings", "least error 3.0e-01", "iteration 1, 2.0e-01"):
        assert words in shown
    assert text(True, Terminal())
    assert not text(False, Terminal())
    assert not text(lambda history: None, Terminal())
    assert not text(None, io.StringIO())
