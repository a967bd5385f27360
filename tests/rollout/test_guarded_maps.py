"""A map that raises ends its own row of a comparison, and no other."""

import numpy as np
import pytest
import torch
from torch import nn

import vpintegrator as vp
from tests.models import networks
from vpintegrator.errors import InputError

H = 0.1
TURN = np.array([[np.cos(H), -np.sin(H)], [np.sin(H), np.cos(H)]])


class Bounded(vp.Map):
    """A rotation that grows, and ends where one of its states passes a bound."""

    dim, step = 2, H

    def __init__(self, bound=np.inf, growth=1.0):
        self.bound, self.growth = bound, growth

    def map(self, windows):
        if (np.abs(windows) > self.bound).any():
            raise ValueError("beyond the table")
        return self.growth * windows @ TURN


class Broken(vp.Map):
    dim, step = 2, H

    def map(self, windows):
        raise RuntimeError("no licence")


class WithoutDerivative(Bounded):
    def derivative(self, windows):
        raise NotImplementedError


class Wrong(vp.Map):
    dim, step = 2, H

    def map(self, windows):
        raise InputError("Wrong needs a table of forces")


def steps_to(bound, growth, state):
    """Return the number of the first step whose state is beyond a bound."""
    step = 0
    while np.abs(state).max() <= bound:
        step += 1
        state = growth * state @ TURN
    return step


@pytest.fixture(scope="module")
def first():
    return np.array([[1.0, 0.0], [0.2, 0.0], [0.0, 0.5]])


@pytest.mark.filterwarnings("ignore:.*has failed, and what it did not give is missing")
def test_rows_of_others_stay_as_they_are(first):
    torch.manual_seed(0)
    maps = {
        "broken": Broken(),
        "wrong": Wrong(),
        "bounded": Bounded(bound=1.5, growth=1.02),
        "without derivative": WithoutDerivative(),
        "ours": Bounded(growth=0.99),
        "general": networks.General(),
    }
    options = {"system": "harmonic-oscillator", "initial": first, "step": H, "steps": 60}
    last = steps_to(1.5, 1.02, first[0])
    with pytest.warns(UserWarning, match=rf"bounded has .*ValueError at step {last + 1}: beyond"):
        report = vp.compare(maps, "rk4", **options)
    alone = vp.compare({"ours": Bounded(growth=0.99)}, "rk4", **options)
    for name in ("ours", "rk4"):
        np.testing.assert_array_equal(report.run(name).states, alone.run(name).states)
        row, other = vars(report.summary(name)), vars(alone.summary(name))
        for number in ("error", "symplecticity", "volume", "reversibility", "lyapunov"):
            assert row[number] == other[number], number
    # each trajectory ends by itself, at the step after it has passed the bound
    counts = np.isfinite(report.run("bounded").states).all(-1).sum(1)
    assert [*counts] == [1 + last, 61, min(1 + steps_to(1.5, 1.02, first[2]), 61)]
    # what works is measured
    area = report.run("bounded").volume["step"].largest
    assert abs(area - 2 * np.log(1.02)) < 1e-8
    for name, reason in (
        ("broken", "raises RuntimeError at step 1: no licence"),
        ("wrong", "Wrong needs a table of forces"),
        ("without derivative", "raises NotImplementedError: NotImplementedError"),
    ):
        run = report.run(name)
        assert run.remark == reason
        summary = report.summary(name)
        assert summary.volume_preserved.get("step") is None
        assert summary.volume_preserved.get("phase-space") is None
        assert run.symplecticity is None
    assert np.isfinite(report.run("without derivative").states).all()
    assert report.run("without derivative").reversibility is not None
    assert np.isnan(report.run("broken").states[:, 1:]).all()
    # determinants of networks that differentiate inside are those of their derivative
    general = report.run("general")
    model = vp.wrap(networks.General(), dim=2, step=H)
    windows = general.states[:, :, None].reshape(-1, 1, 2)
    exact = vp.classical("rk4", "pendulum", H)
    np.testing.assert_allclose(model.derivative(windows), exact.derivative(windows), atol=1e-9)
    expected = np.abs(np.linalg.slogdet(exact.derivative(windows))[1]).max()
    assert abs(general.volume["step"].largest - expected) < 1e-9


@pytest.mark.filterwarnings("ignore:.*has failed, and what it did not give is missing")
@pytest.mark.thorough
def test_reports_with_failures_are_stored_and_drawn(first, tmp_path):
    maps = {"broken": Broken(), "bounded": Bounded(1.5, 1.02), "ours": Bounded()}
    report = vp.compare(
        maps, "rk4", system="pendulum", initial=first, step=H, steps=40, work_precision=True
    )
    report.save(tmp_path / "rollout.h5")
    again = vp.open_rollout(tmp_path / "rollout.h5")
    assert again.run("broken").remark == "raises RuntimeError at step 1: no licence"
    vp.draw(again, tmp_path / "figures", ["png"])
    assert "no licence" in (tmp_path / "figures" / "table.csv").read_text()


@pytest.mark.filterwarnings("ignore:.*has failed, and what it did not give is missing")
def test_maps_that_fail_for_systems_of_more_dimensions():
    class Ends(vp.Map):
        dim, step = 4, 0.2

        def __init__(self):
            self.calls = 0

        def map(self, windows):
            self.calls += 1
            if self.calls > 5:
                raise FloatingPointError
            return windows * 1.0

    report = vp.compare({"ends": Ends()}, "rk4", system="henon-heiles", steps=30, step=0.2)
    assert "FloatingPointError" in report.run("ends").remark
    assert np.isfinite(report.run("rk4").states).all()


@pytest.mark.parametrize(
    ("map", "message"),
    [
        (networks.Failing(20), "Failing raises ValueError at step"),
        (networks.Failing(20, MemoryError), "Failing raises MemoryError at step"),
        (Broken(), "map raises RuntimeError at step 1: no"),
        (Wrong(), "Wrong needs a table"),
        (Bounded(1.1, 1.05), "map raises ValueError at step"),
    ],
)
def test_a_rollout_says_where_its_map_fails(map, message, first):
    with pytest.raises(InputError, match=message):
        vp.rollout(map, first, 100)


def test_states_before_a_failure_are_given(first):
    got = []
    with pytest.raises(ValueError, match="beyond the table"):
        got.extend(Bounded(1.5, 1.02).advance(first[:, None], 1000, chunk=700))
    assert sum(states.shape[1] for states in got) == steps_to(1.5, 1.02, first[0])
    model = vp.wrap(networks.Failing(40), dim=2, step=H)
    got = []
    with pytest.raises(ValueError, match="lattice is full"):
        got.extend(model.advance(first[:, None], 1000, chunk=700))
    assert 0 < sum(states.shape[1] for states in got) <= 40


def test_a_random_network_is_no_machine_code(first):
    class Quiet(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2).double()

        def forward(self, z):
            return z + 1e-3 * nn.functional.dropout(self.layer(z), 0.5, training=True)

    with pytest.warns(UserWarning, match="called again"):
        model = vp.wrap(Quiet(), dim=2, step=H)
    with pytest.raises(InputError, match=r"cannot be compiled: .* when it is called again"):
        vp.compiled.machine_code(model, first, compiled=True)
