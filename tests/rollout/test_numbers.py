"""Every number of a report once more, by plain NumPy from the stored states or in closed form.

docs/reference/numbers.md says of each printed or drawn quantity which test checks it.
"""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import linregress

import vpintegrator as vp
from tests.rollout.systems import system
from tests.rollout.test_compare import trained
from vpintegrator.models import VolumePreservingFeedForward, VolumePreservingTransformer
from vpintegrator.rollout import Volume


def models_of(dim):
    torch.manual_seed(3)
    window = VolumePreservingTransformer(dim=dim, window=3, prediction_window=2, width=4)
    return {"window": window, "single": VolumePreservingFeedForward(dim=dim, width=4, depth=1)}


@pytest.fixture(scope="module", params=["rigid-body", "coupled-oscillators"])
def report(request):
    """Every state stored, so that every number can be computed again from the states."""
    models = models_of(system(request.param).dim)
    models = {name: trained(model, request.param) for name, model in models.items()}
    options = {"steps": 90, "trajectories": 5, "seed": 11, "compiled": False, "section": "none"}
    return vp.compare(models, ["heun", "implicit-midpoint"], **options)


def rows(report):
    return zip(report.runs.values(), report.table(), strict=True)


def test_errors_of_trajectories(report):
    exact = report.reference
    for run, row in rows(report):
        distance = np.sqrt(((run.states - exact) ** 2).sum(axis=-1))
        np.testing.assert_allclose(run.error, distance, rtol=1e-12, atol=1e-16)
        dim = exact.shape[2]
        own = distance.shape[1] - (run.window - 1)  # the others were given
        mean = np.sqrt((distance**2).sum(axis=1) / (dim * own))
        assert row["median RMSE"] == pytest.approx(np.median(mean), rel=1e-12)
        assert row["worst RMSE"] == pytest.approx(max(mean), rel=1e-12)
        assert row["median final error"] == pytest.approx(np.median(distance[:, -1]), rel=1e-12)
        passed = distance > report.threshold
        first = np.where(passed.any(axis=1), report.times[passed.argmax(axis=1)], math.inf)
        assert row["median time to failure"] == np.median(first)
    spread = exact - exact.mean(axis=(0, 1))
    expected = 0.1 * np.sqrt((spread**2).sum(axis=-1).mean())
    assert report.threshold == pytest.approx(expected, rel=1e-12)


def test_errors_of_invariants(report):
    for run, row in rows(report):
        for name, invariant in report.system.invariants.items():
            label = name.replace("_", " ")
            values = np.array([[float(invariant(z)) for z in orbit] for orbit in run.states])
            change = (values - values[:, :1]) / np.abs(values[:, 0]).max()
            assert row[f"{label} error"] == pytest.approx(np.abs(change).max(), rel=1e-12)
            slopes = [linregress(report.times, series).slope for series in change]
            worst = int(np.argmax(np.abs(slopes)))
            assert row[f"{label} drift"] == pytest.approx(slopes[worst], rel=1e-9)


def differences(function, point, size=1e-6):
    """Jacobian matrix by central differences, (out, in)."""
    return np.stack(
        [
            (function(point + size * e) - function(point - size * e)).ravel() / (2 * size)
            for e in np.eye(point.size).reshape(-1, *point.shape)
        ],
        axis=1,
    )


def the_map(report, run):
    """A run's map of one window, (window, dim), by the public functions alone."""
    if run.kind == "learned":
        model = models_of(report.system.dim)[run.name]
        return lambda z: model(torch.from_numpy(z[None])).detach().numpy()[0]
    return lambda z: vp.integrate(report.system, run.method, z, report.step, 1)[:, 1]


def test_volume_of_a_step_by_differences(report):
    for run, row in rows(report):
        function, volume = the_map(report, run), run.volume["step"]
        found = []
        for k, time in enumerate(volume.times):
            last = round(time / report.step)
            for trajectory in range(2 if k % 20 == 0 else 0):
                window = run.states[trajectory, last - run.window + 1 : last + 1]
                matrix = differences(function, np.ascontiguousarray(window))
                expected = math.log(abs(np.linalg.det(matrix)))
                found_there = volume.log_determinant[trajectory, k]
                # that of a shifted window is small, and differences have fewer digits
                tolerance = 1e-8 if run.window == 1 else 1e-4
                assert found_there == pytest.approx(expected, abs=tolerance)
                found.append(expected)
        assert len(found) >= 6
        assert row["map volume error"] == np.abs(volume.log_determinant).max()


def test_volume_of_phase_space_by_differences(report):
    """Of z_0 -> z_t: neighbouring initial states rolled out from first windows of their own."""
    steps = 12
    for run, row in rows(report):
        volume = run.volume["phase-space"]
        centre, size = report.reference[0, 0], 1e-5
        offsets = size * np.concatenate([np.eye(len(centre)), -np.eye(len(centre))])
        starts = centre + offsets
        if run.kind == "classical":
            ends = vp.integrate(report.system, run.method, starts, report.step, steps)[:, -1]
        else:
            function = the_map(report, run)
            exact = vp.dynamics.solve(
                report.system, starts, report.step * np.arange(run.window), rtol=1e-13, atol=1e-13
            )
            ends = np.array([newest(function, run, window, steps) for window in exact])
        upper, lower = np.split(ends, 2)
        expected = math.log(abs(np.linalg.det((upper - lower) / (2 * size))))
        at = np.flatnonzero(np.isclose(volume.times, steps * report.step))[0]
        assert volume.log_determinant[0, at] == pytest.approx(expected, abs=1e-6)
        assert row["phase-space volume error"] == np.abs(volume.log_determinant).max()


def newest(function, run, window, steps):
    """The state after so many steps, window by window, in a plain loop."""
    orbit = list(window)
    while len(orbit) <= steps:
        output = function(np.array(orbit[-run.window :]))
        orbit += list(output[run.window - run.prediction_window :])
    return orbit[steps]


def test_defects_by_differences(report):
    """Not larger than recorded at states met, and as large at one of those sampled."""
    half = report.system.dim // 2
    form = np.kron([[0, 1], [-1, 0]], np.eye(half))
    scales = report.reference.std(axis=(0, 1))
    ratios = np.sqrt(scales[:half] / scales[half : 2 * half])
    for run, row in rows(report):
        function = the_map(report, run)
        ends = [round(t / report.step) for t in run.volume["step"].times[::15]]
        windows = [
            np.ascontiguousarray(run.states[k, end - run.window + 1 : end + 1])
            for end in ends
            for k in range(5)
        ]
        back = [
            np.abs((flipped(function(flipped(function(w), rho)), rho) - w) / scales).max()
            for w in windows
            for rho in report.system.reversing_symmetries
        ]
        assert row["reversibility defect"] == pytest.approx(max(back), rel=1e-6, abs=1e-12)
        if not report.system.is_hamiltonian:
            assert row["symplecticity defect"] is row["window symplecticity defect"] is None
            continue
        of_windows = np.kron(np.eye(run.window), form)
        matrices = [differences(function, w) for w in windows]
        units = np.tile([*ratios, *1 / ratios], run.window)
        expected = max(
            np.abs((m.T @ of_windows @ m - of_windows) * units * units[:, None]).max()
            for m in matrices
        )
        name = "symplecticity defect" if run.window == 1 else "window symplecticity defect"
        assert row[name] == pytest.approx(expected, rel=1e-5, abs=1e-8)
        assert (row["window symplecticity defect"] is None) == (run.window == 1)


def flipped(window, rho):
    return np.ascontiguousarray(window[::-1] @ np.asarray(rho).T)


def test_lyapunov_exponent_by_a_neighbour(report):
    """The growth of a small difference, along the first tangent vector, over the same times."""
    run = report.runs["heun"]
    dim, size = report.system.dim, 1e-7
    scales = report.reference.std(axis=(0, 1))
    start = np.linalg.qr(np.random.default_rng(0).standard_normal((dim, dim)))[0][:, 0] * scales
    z = report.reference[:, 0]
    both = [vp.integrate(report.system, "heun", z + s * start, 0.2, 90) for s in (size, -size)]
    stretch = np.log(np.linalg.norm((both[0] - both[1]) / scales, axis=-1) / (2 * size))
    first = math.ceil(0.2 * 90)
    rate = (stretch[:, -1] - stretch[:, first]) / (0.2 * (90 - first))
    np.testing.assert_allclose(run.lyapunov.exponent[:, 0], rate, atol=1e-6)
    assert run.lyapunov.time == pytest.approx(0.2 * (90 - first))
    assert report.table()[2]["Lyapunov exponent"] == np.median(run.lyapunov.exponent)
    assert report.table()[2]["Lyapunov exponent ±"] == np.median(run.lyapunov.uncertainty) > 0


def test_cost(report):
    table, costs = report.table(), {row.name: row.cost for row in report.step_table.rows}
    assert [row["time per step"] for row in table] == [
        float(f"{costs[name]:.1e}") for name in report.runs
    ]
    assert all(1e-9 < seconds < 1 for seconds in costs.values())
    evaluations = [row["evaluations per step"] for row in table]
    assert evaluations[:3] == [None, None, 2.0] and evaluations[3] >= 1


def test_work_precision_by_a_plain_loop():
    s = system("pendulum")
    initial = s.sample_initial(3, np.random.default_rng(4))
    report = vp.compare(None, "heun", system=s, initial=initial, steps=10, work_precision=True)
    study = report.work_precision["heun"]
    np.testing.assert_allclose(study.step, 0.2 * 2.0 ** np.arange(1, -5, -1))
    for h, error, evaluations in zip(study.step, study.error, study.evaluations, strict=True):
        end = 8.0  # 20 of the largest step
        z = initial.copy()
        for _ in range(round(end / h)):
            k = s.vector_field(z)
            z = z + h / 2 * (k + s.vector_field(z + h * k))
        exact = vp.dynamics.solve(s, initial, np.array([0, end]), rtol=1e-13, atol=1e-13)[:, -1]
        expected = np.sqrt(((z - exact) ** 2).sum(axis=1).mean())
        assert error == pytest.approx(expected, rel=1e-6)
        assert evaluations == pytest.approx(2 / h)
    slope = np.polyfit(np.log(study.step[-4:]), np.log(study.error[-4:]), 1)[0]
    assert study.order == pytest.approx(slope, rel=1e-9)


# ------------------------------------------------------ numbers that must not flatter a method


def test_a_map_that_flattens_volume_is_infinitely_wrong():
    """Its determinant is 0 and log|det| is -inf, which must not pass for something not measured."""
    volume = Volume(np.array([0.0, 1.0]), np.array([[1e-3, -np.inf], [np.nan, 2e-3]]))
    assert volume.largest == math.inf
    assert Volume(np.zeros(1), np.array([[np.nan]])).largest is None
    flat = 'state = ["x", "y"]\n[vector_field]\nx = "-x"\ny = "0*y"\n[defaults]\nstep = 1\n'
    report = vp.compare(
        None, ["explicit-euler"], system=vp.load_system(flat), initial=[[1.0, 1.0]], steps=4
    )
    assert report.table()[0]["map contraction error"] == math.inf
    assert report.table()[0]["phase-space contraction error"] == math.inf


def test_docs_say_of_every_column_what_it_is(report):
    text = (Path(__file__).parents[2] / "docs/reference/numbers.md").read_text(encoding="utf-8")
    names = [name.replace("_", " ") for name in report.system.invariants]
    for column in report.table()[0]:
        for name in names:
            column = column.replace(f"{name} ", "NAME ")
        assert f"`{column}`" in text, column
