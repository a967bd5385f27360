"""States at irregular times, on demand brought to equal steps."""

import tomllib

import numpy as np
import pytest

from vpintegrator.data import import_dataset
from vpintegrator.errors import InputError

TIMES = 0.1 * np.arange(60) + np.random.default_rng(0).uniform(-0.03, 0.03, 60)
STATES = np.stack([np.cos(TIMES), -np.sin(TIMES)], axis=-1)


def test_irregular_times_are_resampled_on_demand_and_the_error_is_told(tmp_path):
    with pytest.raises(InputError, match="--irregular resample"):
        import_dataset(STATES, tmp_path / "a.h5", times=TIMES, step=0.1)
    dataset = import_dataset(STATES, tmp_path / "a.h5", times=TIMES, irregular="resample", step=0.1)
    states = np.concatenate([dataset.states(group)[0] for group in dataset.shapes])
    times = np.concatenate([dataset.times(group) for group in dataset.shapes])
    assert dataset.step == 0.1
    error = np.abs(states - np.stack([np.cos(times), -np.sin(times)], axis=-1)).max()
    said = tomllib.loads(dataset.recipe)["imported"]["guessed"][-1]
    worst = float(said.split("worst ")[1].split(")")[0])
    assert "cubic splines" in said and error < 2 * worst < 1e-2  # the range is 2


def test_long_gaps_and_few_times_are_not_interpolated(tmp_path):
    late = TIMES + 3.0 * (np.arange(60) > 30)
    for times, states, message in (
        (late, STATES, "too long to be interpolated"),
        (TIMES[:5], STATES[:5], "8 times or more"),
        (TIMES[::-1], STATES, "that increase"),
    ):
        with pytest.raises(InputError, match=message):
            import_dataset(states, tmp_path / "a.h5", times=times, irregular="resample")
    with pytest.raises(InputError, match="far below"):
        import_dataset(STATES, tmp_path / "a.h5", times=TIMES, irregular="resample", step=1e-9)
    with pytest.raises(InputError, match="irregular needs times"):
        import_dataset(STATES, tmp_path / "a.h5", step=1.0, irregular="resample")
