"""The benchmark of incomplete states: plain learners, their judge, and what is not repeated."""

import json

import numpy as np
import pytest

import vpintegrator as vp
from tests.scripts.conftest import run


def oscillations(count, times, seed):
    """Positions (orbit, time, 2) of two oscillators, which follow a recurrence of two steps."""
    random = np.random.default_rng(seed)
    size = random.uniform(0.5, 1, (2, count, 1))
    phase = random.uniform(0, 6, (2, count, 1))
    t = 0.3 * np.arange(times)
    return np.stack(
        [a * np.cos(w * t + b) for a, b, w in zip(size, phase, (1, 1.6), strict=True)], -1
    )


def test_ridge_regression_finds_the_window_of_a_recurrence(script):
    module = script("positions")
    train, test = oscillations(60, 12, 0), oscillations(10, 130, 1)
    step, window, words = module.ridge(train, oscillations(15, 12, 2), 20.0, windows=(1, 2))
    assert window == 2 and "window 2, degree" in words
    result = module.Judge(train, test, {}, 120).errors(step, window)
    assert result["one"] < 1e-10 and result["after 100"] < 1e-7
    assert (result["lost"], result["of"], result["steps"]) == (0, 10, 120)


@pytest.mark.parametrize("window", [1, 3])
def test_errors_are_relative_to_the_spread_and_lost_orbits_count(script, window):
    module = script("positions")
    train, test = oscillations(60, 12, 0), oscillations(8, 130, 1)
    judge = module.Judge(train, test, {}, 110)
    spread = np.sqrt(train.reshape(-1, 2).var(0).sum())
    rest = judge.errors(lambda w: w[:, -2:], window)
    change = np.linalg.norm(np.diff(test[:, window - 1 :], axis=1), axis=-1) / spread
    assert rest["one"] == pytest.approx(np.sqrt((change**2).mean()))
    away = np.linalg.norm(test[:, window - 1] - test[:, window + 19], axis=-1) / spread
    assert rest["after 20"] == pytest.approx(np.median(away)) and rest["lost"] == 0
    assert judge.errors(lambda w: 1.5 * w[:, -2:], window)["lost"] == 8
    assert judge.errors(lambda w: np.nan * w[:, -2:], window)["after 20"] == np.inf


def test_what_is_in_the_folder_is_not_measured_again(script, tmp_path):
    module = script("positions")
    arguments = ["--folder", str(tmp_path), "--cases", "pendulum", "--learners", "ridge,MLP"]
    quick = [*arguments, "--seconds", "0.2", "--quick", "--markdown"]
    output = run(module, *quick)
    assert "|pendulum" in output and "ridge" in output and "MLP" in output
    path = tmp_path / "pendulum-ridge.json"
    result = json.loads(path.read_text())
    assert result["window"] in (1, 2, 3) and result["of"] == 40
    path.write_text(json.dumps(result | {"words": "measured before"}))
    assert "measured before" in run(module, *quick)
    assert "'solver' is none of" in run(module, "--folder", "a", "--cases", "solver", code=2)


def test_a_kind_may_be_named(script, tmp_path):
    module = script("positions")
    data = module.CASES["pendulum"].data(tmp_path / "a.h5", fresh=False, quick=True)
    kind = vp.training.search("polynomial", {"window": 2, "degree": 3})
    step, window, words, facts = module.fit(data, kind, 60.0)
    assert window == 2 and words.startswith("polynomial, window 2, degree 3")
    assert step(np.zeros((5, 2))).shape == (5, 1) and facts["own error"] > 0
