"""The reference solution, its certificate and its end."""

import dataclasses
import warnings

import numpy as np
import pytest

import vpintegrator as vp
from tests.plotting.test_tables import printed
from vpintegrator.rollout import solve_reference
from vpintegrator.runtime.progress import step_bar

CHAOTIC = [[2.5, 2.0, 0.0, 0.0], [0.1, 0.1, 0.0, 0.0], [3.0, 2.5, 0.0, 0.0]]


@pytest.fixture(scope="module")
def chaos():
    """Two chaotic orbits and a regular one of the double pendulum."""
    methods = ["rk4", "dop853-1e-8", "dop853-1e-11"]
    return vp.compare(
        None, methods, system="double-pendulum", initial=CHAOTIC, step=0.05, time=70.0
    )


def test_the_reference_of_each_orbit_ends_where_its_error_passes_a_tenth_of_the_threshold(chaos):
    ends = chaos.reference_ends
    assert ends[1] == 70.0
    assert 10 < ends[0] < 65
    assert 10 < ends[2] < 65
    assert chaos.reference_time == np.sort(ends)[1]
    other = vp.solve(chaos.system, np.array(CHAOTIC), chaos.times, "DOP853", 3e-14, 1e-16)
    distance = np.linalg.norm(other - chaos.reference, axis=-1)
    assert np.nanmax(distance) < chaos.threshold
    assert (np.isnan(chaos.reference).any(axis=-1) == (chaos.times > ends[:, None])).all()
    coarser = vp.solve(chaos.system, np.array(CHAOTIC), chaos.times, "DOP853", 1e-12, 1e-12)
    later = chaos.times > 1.3 * ends[:, None]
    parted = np.linalg.norm(other - coarser, axis=-1)
    assert parted[later].max() > chaos.threshold  # it does not end for nothing


def test_errors_speak_up_to_the_end_of_the_reference(chaos):
    for name in chaos.runs:
        errors = chaos.run(name).error
        assert (np.isnan(errors) == (chaos.times > chaos.reference_ends[:, None])).all()
    squares = (chaos.runs["rk4"].states - chaos.reference) ** 2
    rmse = np.sqrt(np.nanmean(squares, axis=(1, 2)))
    assert chaos.runs["rk4"].root_mean_square_error == pytest.approx(rmse)


def test_methods_are_ranked_by_their_accuracy_and_not_by_noise(chaos):
    coarse, *fine = (chaos.runs[name].root_mean_square_error for name in chaos.runs)
    assert all((coarse > each).all() for each in fine)
    passed = [run.threshold_time[[0, 2]] for run in chaos.runs.values()]
    assert (np.diff(passed, axis=0) > 0).all()
    medians = [chaos.summary(name).threshold_time for name in chaos.runs]
    assert medians == sorted(medians)


def test_what_is_known_of_a_median_that_no_method_reaches(chaos):
    """It is at least the time at which half of the orbits have failed or lost their reference."""
    run = dataclasses.replace(
        chaos.runs["rk4"],
        measurements=chaos.runs["rk4"].measurements | {"threshold_time": np.full(3, np.nan)},
    )
    report = dataclasses.replace(chaos, runs={"rk4": run})
    assert report.threshold_passed("rk4") == chaos.reference_time
    runs = {**chaos.runs, "other": dataclasses.replace(run, name="other")}
    table = printed(dataclasses.replace(chaos, runs=runs), 400)
    assert f"> {chaos.reference_time:.4g}" in table


def test_orbits_end_at_a_bound_in_the_reference_too():
    system = vp.load_system('state = ["x", "y"]\n[vector_field]\nx = "y"\ny = "x"')
    initial = np.array([[1.0, 1.0], [1.0, -1.0]])  # exp(t), exp(-t)
    report = vp.compare(
        None, ["rk4"], system=system, initial=initial, step=0.1, steps=60, bound=20.0
    )
    end = int(np.floor(np.log(20.0) / 0.1))
    for states in (report.reference, report.runs["rk4"].states):
        known = np.isfinite(states).all(axis=-1)
        assert known[0].sum() == min(end + 1, states.shape[1])
        assert known[1].all()
    assert report.reference[0, end] == pytest.approx(np.exp(0.1 * end), rel=1e-11)


def test_a_bound_ends_an_orbit_that_would_stop_the_solver():
    blow_up = vp.load_system('state = ["x"]\n[vector_field]\nx = "x**2"')  # at t = 1
    initial, times = np.array([[1.0], [-1.0]]), 0.125 * np.arange(17)
    with pytest.raises(vp.InputError, match="cannot be continued"):
        solve_reference(blow_up, initial, times)
    states = solve_reference(blow_up, initial, times, bound=6.0).states
    assert states[0, :7, 0] == pytest.approx(1 / (1 - times[:7]), rel=1e-11)
    assert np.isnan(states[0, 7:]).all()
    assert states[1, :, 0] == pytest.approx(-1 / (1 + times), rel=1e-11)


def test_orbits_of_maps_end_at_a_bound():
    henon = vp.load_system("henon-map")
    initial = np.array([[0.1, 0.1], [3.0, 3.0]])
    report = vp.compare(
        vp.classical("exact", henon), system=henon, initial=initial, steps=40, bound=50.0
    )
    for states in (report.reference, report.runs["exact"].states):
        assert np.isfinite(states[0]).all() and np.isnan(states[1, -1]).all()


def test_a_drift_of_an_invariant_beyond_the_accuracy_is_told():
    kepler = vp.load_system("pendulum")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vp.compare(None, ["rk4"], system=kepler, steps=50)
    kepler.invariants["energy"] = lambda z: z[..., 0]
    with pytest.warns(UserWarning, match="energy of pendulum drifts by .* no invariant"):
        vp.compare(None, ["rk4"], system=kepler, steps=50)


def test_progress_appears_on_a_terminal_after_a_while(capsys):
    with step_bar(None) as show:  # no terminal
        show("rk4", 1, 2)
    assert capsys.readouterr().err == ""
    with step_bar(True, patience=0.0) as show:
        for done in range(3):
            show("rk4", done, 2)
    calls = []
    with step_bar(lambda *call: calls.append(call)) as show:
        show("rk4", 1, 2)
    assert calls == [("rk4", 1, 2)]
