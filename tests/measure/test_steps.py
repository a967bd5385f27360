"""The table of one step of maps, from windows and images alone."""

import math
import time

import numpy as np
import pytest

import vpintegrator as vp
from vpintegrator.compiled import CompiledMethod
from vpintegrator.measure import steps, table
from vpintegrator.runtime.interrupts import until

STEP = 0.2


@pytest.fixture(scope="module")
def pendulum():
    system = vp.load_system("pendulum")
    first = system.sample_initial(60, np.random.default_rng(0))
    states = vp.solve(system, first, STEP * np.arange(3), rtol=2.3e-14, atol=1e-15)
    return system, states[:, :1], states[:, 1:]


def maps(system, *names):
    return {name: vp.classical(name, system, STEP) for name in names}


def test_errors_count_some_components_relative_to_a_spread(pendulum):
    system, windows, images = pendulum
    own = maps(system, "rk4", "heun@2")
    rows = table(own, windows, images, components=[1], spread=2.0, end=0.0).rows
    for row in rows:
        wrong = own[row.name].map(windows)[:, 0, 1] - images[:, 0, 1]
        assert row.error == pytest.approx(np.sqrt(np.mean(wrong**2)) / 2, rel=1e-6)
        assert math.isnan(row.cost) and row.note == "not measured in time"
    assert [row.name for row in rows] == ["rk4", "heun@2"]


def test_better_known_errors_are_shown_and_substeps_come_from_the_windows(pendulum):
    system, windows, images = pendulum
    model = vp.models.SplittingMap(dim=2, hamiltonian="z[1]**2/2 - cos(z[0])", stages=4)
    model.set_advance(STEP)
    wrong = model.map(windows)[:, 0] - images[:, 0]
    own = float(np.sqrt((wrong**2).sum(1).mean()))
    methods = maps(system, "rk4", "heun")
    for known in (own / 100, 100 * own):
        result = table({"m": model}, windows, images, methods=methods, errors={"m": [known]})
        (row,) = result.models
        assert row.error == known and {rival.name for rival in row.rivals} == {*methods}
        for rival in row.rivals:
            assert 0 < rival.cost < 1
            for substeps in (rival.substeps, rival.substeps - 1):
                map = vp.classical(rival.name, system, STEP, substeps=substeps or 1)
                wrong = map.map(windows)[:, 0] - images[:, 0]
                below = np.sqrt((wrong**2).sum(1).mean()) <= own
                assert below == (substeps == rival.substeps) or substeps == 0


def test_methods_with_substeps_of_their_own_are_no_rivals(pendulum):
    system, windows, images = pendulum
    model = vp.models.SplittingMap(dim=2, hamiltonian="z[1]**2/2 - cos(z[0])", stages=2)
    model.set_advance(STEP)
    result = table({"m": model, **maps(system, "rk4", "rk4@4")}, windows, images)
    assert [rival.name for rival in result.models[0].rivals] == ["rk4"]
    assert {row.name for row in result.methods} == {"rk4", "rk4@4"}
    coarse, fine = (result.row(name).cost for name in ("rk4", "rk4@4"))
    assert fine > 1.5 * coarse


def test_maps_as_they_are(pendulum, monkeypatch):
    system, windows, images = pendulum
    machine = vp.compiled.machine_code(vp.classical("rk4", system, STEP), windows, True)
    given = {"machine": machine, **maps(system, "heun")}
    beside = maps(system, "strang-splitting")
    result = table(given, windows, images, methods=beside, as_they_are=True)
    notes = {row.name: row.note for row in result.rows}
    assert notes == {"machine": "", "heun": "in NumPy", "strang-splitting": ""}
    monkeypatch.setenv("CXX", "/nowhere/c++")
    monkeypatch.setenv("VPINTEGRATOR_CACHE", "/nowhere")
    result = table(given, windows, images, methods=beside, as_they_are=True)
    assert {row.name for row in result.rows} == {"machine", "heun"}


def test_compilers_end_with_an_interrupt(pendulum, monkeypatch):
    system, windows, images = pendulum
    stopped = []

    def interrupted(machine):
        raise KeyboardInterrupt

    monkeypatch.setattr(CompiledMethod, "ready", interrupted)
    monkeypatch.setattr(CompiledMethod, "stop", lambda machine: stopped.append(machine.name))
    with pytest.raises(KeyboardInterrupt):
        table(maps(system, "rk4", "heun"), windows, images)
    assert {*stopped} == {"rk4", "heun"}


def test_methods_of_unknown_error_are_left_out(pendulum):
    system, windows, images = pendulum
    with until(time.perf_counter()):
        assert table(maps(system, "rk4"), windows, images).rows == ()


@pytest.mark.parametrize("count", [1, 7, 1024])
def test_the_fewest_substeps_are_found(count):
    assert steps.fewest_substeps(lambda n: 1.0 / n, 1.0 / count) == (count, "")
    assert steps.fewest_substeps(lambda n: 1.0, 1.0 / count + 0.5)[0] == (1 if count == 1 else None)
