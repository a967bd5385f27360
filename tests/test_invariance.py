"""What results must not depend on: order, threads, precision, the cut into parts."""

import sys

import numpy as np
import pytest
import torch

import vpintegrator as vp
from tests.rollout.systems import initial, system
from tests.rollout.test_compare import same, trained

ORDER = [3, 0, 4, 1, 2]


def model(name, dtype=torch.float64):
    torch.manual_seed(0)
    options = {"dim": 3, "window": 3, "depth": 1, "width": 4, "dtype": dtype}
    made = {
        "vpt": vp.models.VolumePreservingTransformer,
        "transformer": vp.models.StandardTransformer,
    }[name](**options)
    return trained(made)


@pytest.mark.parametrize("compiled", [True, False])
def test_order_of_the_orbits(compiled):
    body, start = system("rigid-body"), initial("rigid-body", 5)
    reference = vp.dynamics.solve(body, start, 0.2 * np.arange(41))
    options = {"against": ["rk4", "implicit-midpoint"], "compiled": compiled}
    one = vp.compare(model("vpt"), reference=reference, **options)
    other = vp.compare(model("vpt"), reference=reference[ORDER], **options)
    for name, run in one.runs.items():
        moved = other.runs[name]
        exactly = run.kind == "classical" or compiled
        for key in ("states", "error", "root_mean_square_error"):
            first, second = getattr(run, key)[ORDER], getattr(moved, key)
            rtol, atol = (0, 0) if exactly else (1e-9, 1e-12)
            np.testing.assert_allclose(first, second, rtol, atol, err_msg=f"{name} {key}")
        pairs = [(value.error, moved.invariants[k].error) for k, value in run.invariants.items()]
        for key, value in run.volume.items():
            pairs.append((value.log_determinant, moved.volume[key].log_determinant))
        for first, second in pairs:
            np.testing.assert_allclose(first[ORDER], second, 1e-9, 1e-12, err_msg=name)
    # the exact solution is found for all orbits at once, with steps that suit all of them
    times = 0.2 * np.arange(41)
    moved = vp.dynamics.solve(body, start[ORDER], times)
    np.testing.assert_allclose(reference[ORDER], moved, rtol=0, atol=1e-12)


@pytest.mark.parametrize("compiled", [True, False])
def test_threads(compiled, tmp_path):
    dataset = vp.generate("rigid-body", tmp_path / "a.h5", count=60, steps=6)
    results = []
    before = torch.get_num_threads()
    for threads in (1, 2):
        torch.manual_seed(0)
        net = vp.models.VolumePreservingFeedForward(dim=3, depth=1, width=4)
        options = {"optimizer": "levenberg-marquardt", "compiled": compiled}
        try:
            torch.set_num_threads(threads)
            history = vp.train(net, dataset, epochs=4, **options)
            states = vp.rollout.rollout(
                model("vpt"), dataset.states("train", slice(None), slice(3)), 20, compiled=compiled
            )
        finally:
            torch.set_num_threads(before)
        results.append((history.validation_error, states))
    assert results[0][0] == results[1][0]
    assert np.array_equal(results[0][1], results[1][1])


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("name", ["vpt", "transformer"])
def test_single_precision(name, compiled):
    windows = vp.dynamics.solve(system("rigid-body"), initial("rigid-body", 4), 0.2 * np.arange(3))
    steps = 12
    exact = vp.rollout.rollout(model(name), windows, steps, compiled=compiled)
    single = model(name, torch.float32)
    single.load_state_dict(model(name).state_dict())
    found = vp.rollout.rollout(single, windows, steps, compiled=compiled)
    assert np.abs(found - exact).max() < 64 * np.finfo(np.float32).eps * np.abs(exact).max()


@pytest.mark.parametrize("values", [1, 40, 10**6])
def test_parts_of_a_rollout(monkeypatch, values):
    def compared():
        return vp.compare(model("vpt"), ["rk4"], steps=130, trajectories=2, compiled=False)

    whole = compared()
    module = sys.modules["vpintegrator.rollout.compare"]
    monkeypatch.setattr(module, "_CHUNK_VALUES", values)
    parts = compared()
    for name, run in whole.runs.items():
        other = parts.runs[name]
        assert same(run.states, other.states)
        assert same(run.error, other.error)
        assert same(run.volume, other.volume)
        np.testing.assert_allclose(
            run.root_mean_square_error, other.root_mean_square_error, rtol=1e-14
        )
        for key, invariant in run.invariants.items():
            assert same(invariant.error, other.invariants[key].error)
            np.testing.assert_allclose(
                invariant.drift.slope, other.invariants[key].drift.slope, rtol=1e-8, atol=1e-16
            )
