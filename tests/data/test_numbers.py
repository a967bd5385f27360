"""The accuracy that vp-gen prints, measured once more: in closed form, by loops over the states."""

import mpmath
import pytest

import vpintegrator as vp
from vpintegrator.data.inspection import inspect_dataset


@pytest.mark.parametrize(("rtol", "step"), [(1e-5, 3.0), (1e-8, 3.0), (1e-8, 0.2), (1e-12, 0.2)])
def test_the_estimated_error_is_not_below_the_true_one(tmp_path, rtol, step):
    """Nor far above, but where the solver's steps end at the output times before they must."""
    options = {"steps": 40, "step": step, "rtol": rtol, "atol": rtol}
    dataset = vp.generate("harmonic-oscillator", tmp_path / "a.h5", count=8, **options)
    with mpmath.workdps(30):
        angles = [k * mpmath.mpf(step) for k in range(41)]
        turns = [(mpmath.cos(angle), mpmath.sin(angle)) for angle in angles]
    worst = 0.0
    for group in ("train", "validation", "test"):
        for orbit in dataset.states(group):
            q, p = map(mpmath.mpf, orbit[0])
            for (c, s), state in zip(turns, orbit, strict=True):
                exact = (q * c + p * s, p * c - q * s)
                worst = max(worst, *(abs(e - z) for e, z in zip(exact, state, strict=True)))
    estimate = dataset.accuracy["estimated_error"]
    assert dataset.accuracy["sample"] == 8
    assert float(worst) < 1.5 * estimate + 1e-15
    if step == 3.0:
        assert estimate < 1.5 * float(worst)


def test_changes_of_invariants(tmp_path):
    dataset = vp.generate("rigid-body", tmp_path / "a.h5", count=20, steps=30)
    orbits = [orbit for group in dataset.shapes for orbit in dataset.states(group)]
    for name, invariant in dataset.system.invariants.items():
        values = [[float(invariant(z)) for z in orbit] for orbit in orbits]
        change = max(abs(v - series[0]) for series in values for v in series)
        largest = max(abs(v) for series in values for v in series)
        found = dataset.accuracy["invariant_drift"][name]
        assert found == pytest.approx(change / largest, rel=1e-12)
        for group, seen in inspect_dataset(dataset).items():
            own = [[float(invariant(z)) for z in orbit] for orbit in dataset.states(group)]
            change = max(abs(v - series[0]) for series in own for v in series)
            assert seen.changes[name] == pytest.approx(
                change / max(abs(v) for series in own for v in series), rel=1e-12
            )
    for group, seen in inspect_dataset(dataset).items():
        states = dataset.states(group).reshape(-1, 3)
        assert [min(column) for column in states.T.tolist()] == list(seen.low)
        assert [max(column) for column in states.T.tolist()] == list(seen.high)
