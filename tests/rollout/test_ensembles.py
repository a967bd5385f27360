"""Very many trajectories: their statistics are those of their states, whoever makes them."""

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import h5py
import hypothesis.extra.numpy as arrays
import hypothesis.strategies as st
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given

import vpintegrator as vp
from vpintegrator.cli import rollout
from vpintegrator.errors import InputError
from vpintegrator.rollout.diagnostics.rotation import birkhoff_weights
from vpintegrator.rollout.ensembles import run, shard
from vpintegrator.rollout.ensembles.escape import Escape
from vpintegrator.rollout.ensembles.plan import EnsemblePlan
from vpintegrator.rollout.ensembles.statistics import Statistics
from vpintegrator.rollout.flow import LearnedFlow

STANDARD_MAP = """
title = "Standard map"
state = ["q", "p"]
symplectic = true
parameters = { K = 0.6 }
periodic = { q = "2*pi" }
[[map]]
p = "p + K*sin(q)"
[[map]]
q = "q + p"
[initial_conditions]
distribution = "uniform"
low = { q = "-pi", p = -1 }
high = { q = "pi", p = 1 }
"""
STEP = 0.2


@pytest.fixture(scope="module")
def pendulum():
    return vp.rollout.as_flow("stoermer-verlet", vp.load_system("pendulum"), STEP)


@pytest.fixture(scope="module")
def model():
    torch = pytest.importorskip("torch")
    system = vp.load_system("harmonic-oscillator")
    torch.manual_seed(0)
    model = vp.models.SymplecticFeedForward(dim=2, depth=2, width=4)
    metadata = {"system": system.text, "system_name": system.name, "parameters": "{}", "step": "1"}
    model.metadata.update(metadata)
    return model


def measures(**given):
    return vp.rollout.EnsembleMeasures(**{"resolution": 32, "rotation": None, **given})


def plan(system, **given):
    usual = {"view": ((-1.0, 1.0), (-1.0, 1.0)), "columns": 9, "rows": 7, "escape": Escape()}
    return EnsemblePlan(
        system, **{"steps": 12, "pair": (0, 1), "centre": (0.1, 0.2), **usual, **given}
    )


numbers = st.one_of(st.floats(-2, 2), st.sampled_from([np.nan, np.inf, -np.inf, 0.1, 0.2, -0.0]))


@given(
    states=arrays.arrays(np.float64, (5, 13, 2), elements=numbers),
    parts=st.sampled_from([(1, 12), (1, 5, 7), (1, 1, 3, 8)]),
    turning=st.sampled_from([{}, {"angle": 0}, {"escape": Escape("q**2 > 3")}]),
)
def test_machine_code_does_what_numpy_does(states, parts, turning):
    asked = plan(vp.load_system("pendulum"), **turning)
    found = []
    for compiled in (None, False):
        statistics, done = Statistics(asked, 5, compiled), 0
        for count in parts:
            staying = np.flatnonzero(statistics.left < 0)
            statistics.add(staying, states[staying, done : done + count], done)
            done += count
        found.append(statistics.counts)
    one, other = found
    np.testing.assert_array_equal(one.density, other.density)
    np.testing.assert_array_equal(one.left, other.left)
    assert one.off == other.off
    # half a turn to the left or to the right is a matter of rounding
    turns = one.rotation - other.rotation
    even = np.abs(np.abs(turns * 1e3) % 1) < 2  # both are known, or neither
    np.testing.assert_array_equal(np.isnan(one.rotation), np.isnan(other.rotation))
    assert even[np.isfinite(turns)].all()


@given(angles=arrays.arrays(np.float64, 6, elements=st.floats(-3, 3)), size=st.floats(0.01, 100))
def test_angles_are_those_of_the_c_library(angles, size):
    """One step each from a known angle to another: the rotation is their difference."""
    system = vp.load_system("harmonic-oscillator")
    asked = plan(system, steps=1, centre=(0.0, 0.0), view=((-1.0, 1.0), (-1.0, 1.0)))
    first = np.tile([size, 0.0], (6, 1, 1))
    second = size * np.stack([np.cos(angles), np.sin(angles)], axis=-1)[:, None]
    statistics = Statistics(asked, 6)
    for done, states in enumerate((first, second)):
        statistics.add(np.arange(6), states, done)
    np.testing.assert_allclose(statistics.counts.rotation, angles / (2 * np.pi), atol=1e-15)


def test_counts_and_exits_are_those_of_the_states(pendulum, tmp_path):
    system = pendulum.system
    view = {"q": (-3.0, 3.0), "p": (-2.0, 2.5)}
    asked = measures(view=view, resolution=(20, 30), escape="p**2 + q > 1.2")
    found = vp.rollout.ensemble(
        pendulum, tmp_path / "a.h5", initial=300, steps=70, seed=3, measures=asked
    )
    states = vp.integrate(system, "stoermer-verlet", found.initial, STEP, 70)
    out = states[..., 1] ** 2 + states[..., 0] > 1.2
    left = np.where(out.any(axis=1), out.argmax(axis=1), -1)
    np.testing.assert_array_equal(found.left, left)
    assert (left > 0).sum() > 0 and 0 < (left < 0).sum() < 300
    inside = states[np.cumsum(out, axis=1) == 0]
    turned = inside[:, 0] - 2 * np.pi * np.floor((inside[:, 0] + 3.0) / (2 * np.pi))
    counted, _, _ = np.histogram2d(turned, inside[:, 1], (20, 30), [(-3.0, 3.0), (-2.0, 2.5)])
    assert np.abs(found.density - counted.T).sum() <= 2  # on an edge, the sums of rounding differ
    assert found.density.sum() + found.off == len(inside)
    np.testing.assert_allclose(
        found.confined, [np.mean((left < 0) | (left > step)) for step in range(71)]
    )


def test_rotation_numbers_of_a_known_map(tmp_path):
    """The implicit midpoint rule turns an oscillator by 2 arctan(h/2), clockwise."""
    flow = vp.rollout.as_flow("implicit-midpoint", vp.load_system("harmonic-oscillator"), 0.7)
    asked = measures(rotation="auto")
    found = vp.rollout.ensemble(flow, tmp_path / "a.h5", initial=20, steps=200, measures=asked)
    assert np.abs(found.plan.centre).max() < 1e-9 and found.plan.about == "elliptic"
    np.testing.assert_allclose(found.rotation, -np.arctan(0.35) / np.pi, atol=1e-14)
    assert found.change.max() < 1e-11


def test_rotation_converges_fast_on_tori_alone(tmp_path):
    """The angle of the standard map: at p = 0 near q = 0 chaos, beyond islands tori."""
    flow = vp.rollout.ExactMap(vp.load_system(STANDARD_MAP))
    golden = (np.sqrt(5) - 1) / 2 * 2 * np.pi
    initial = np.array([[0.1, golden], [0.0, 1e-5]])
    asked = measures(rotation="q", escape="never")
    found = vp.rollout.ensemble(
        flow, tmp_path / "a.h5", initial=initial, steps=10_000, measures=asked
    )
    twice = vp.rollout.ensemble(
        flow, tmp_path / "b.h5", initial=initial, steps=20_000, measures=asked
    )
    assert found.change[0] < 1e-9 and abs(found.rotation - twice.rotation)[0] < 1e-10
    assert found.change[1] > 1e-6
    assert found.system.is_discrete and found.kind == "exact"


def test_weights():
    weights = birkhoff_weights(7)
    np.testing.assert_allclose(weights.sum(axis=0), 1)
    assert not weights[3:, 1].any() and not weights[:4, 2].any()
    assert birkhoff_weights(1).tolist() == [[1.0, 0.0, 0.0]]


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["model", "pendulum"])
def test_workers_and_shards_change_nothing(kind, request, tmp_path, monkeypatch):
    flow = request.getfixturevalue(kind)
    monkeypatch.setattr(shard, "_LEAST", 16)
    monkeypatch.setattr(shard, "_STATES", 400)
    options = {"initial": 50, "steps": 20, "measures": measures(rotation="auto")}
    shown = []
    one = vp.rollout.ensemble(
        flow, tmp_path / "a.h5", progress=lambda *n: shown.append(n), **options
    )
    two = vp.rollout.ensemble(flow, tmp_path / "b.h5", workers=2, **options)
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()
    assert shown[0] == (0, 1000) and shown[-1] == (1000, 1000)
    monkeypatch.setattr(shard, "_STATES", 10**6)
    whole = vp.rollout.ensemble(flow, tmp_path / "c.h5", **options)
    for found in (one, two):
        np.testing.assert_array_equal(found.density, whole.density)
        np.testing.assert_array_equal(found.rotation, whole.rotation)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.h5", "b.h5", "c.h5"]


@pytest.mark.thorough
def test_a_cluster_gives_the_same_bytes(model, tmp_path):
    distributed = pytest.importorskip("distributed")
    options = {"initial": 300, "steps": 20, "measures": measures()}
    vp.rollout.ensemble(model, tmp_path / "a.h5", **options)
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        address = cluster.scheduler_address
        vp.rollout.ensemble(model, tmp_path / "b.h5", scheduler=address, **options)
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()


def test_what_is_interrupted_goes_on(pendulum, tmp_path, monkeypatch):
    monkeypatch.setattr(shard, "_LEAST", 16)
    monkeypatch.setattr(shard, "_STATES", 400)
    options = {"initial": 60, "steps": 40, "measures": measures()}
    whole = vp.rollout.ensemble(pendulum, tmp_path / "whole.h5", **options)

    def stop(done, total):
        if done > total // 2:
            raise KeyboardInterrupt

    path = tmp_path / "a.h5"
    with pytest.raises(KeyboardInterrupt):
        vp.rollout.ensemble(pendulum, path, progress=stop, **options)
    folder = tmp_path / "a.h5.shards"
    kept = {file.name: file.stat().st_mtime_ns for file in folder.glob("*.h5")}
    assert 0 < len(kept) < 4 and not path.exists()
    with pytest.raises(InputError, match="interrupted run left"):
        vp.rollout.ensemble(pendulum, path, **options)
    with pytest.raises(InputError, match="belongs to another ensemble"):
        vp.rollout.ensemble(pendulum, path, resume=True, **{**options, "seed": 1})
    (folder / "000000.h5").write_bytes(b"damaged")
    seen = []
    vp.rollout.ensemble(
        pendulum, path, resume=True, progress=lambda *n: seen.append(n[0]), **options
    )
    assert path.read_bytes() == (tmp_path / "whole.h5").read_bytes() and not folder.exists()
    assert whole.table()[0]["states"] == 60 * 41


@pytest.mark.thorough
def test_a_killed_process_loses_its_last_shard_alone(tmp_path):
    command = [sys.executable, "-m", "vpintegrator.cli.rollout", "--system", "pendulum"]
    command += ["--against", "rk4", "--ensemble", "1200", "--steps", "70000", "-o", "a.h5"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE)
    folder, end = tmp_path / "a.h5.shards", time.monotonic() + 60
    while not list(folder.glob("0*.h5")) and time.monotonic() < end:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130, said
    assert list(folder.glob("0*.h5"))


def test_a_file_holds_it_whole(pendulum, tmp_path):
    path = tmp_path / "a.h5"
    asked = measures(rotation="auto", escape="q > 1")
    found = vp.rollout.ensemble(pendulum, path, initial=30, steps=10, measures=asked)
    again = vp.rollout.open_ensemble(path)
    assert json.dumps(again.table()) == json.dumps(found.table())
    assert again.plan.as_json() == found.plan.as_json()
    again.save(tmp_path / "b.h5")
    assert path.read_bytes() == (tmp_path / "b.h5").read_bytes()
    with h5py.File(path, "a") as f:
        f["left"][3] = 11
    with pytest.raises(InputError, match="impossible"):
        vp.rollout.open_ensemble(path)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"plane": "q,x"}, "two of the components"),
        ({"view": "q=-1:1"}, "both components"),
        ({"view": {"q": (1, -1), "p": (0, 1)}}, "both components"),
        ({"resolution": 0}, "cells on a side"),
        ({"resolution": 100_000}, "at most"),
        ({"escape": "q"}, "one comparison"),
        ({"escape": "q > x"}, "x"),
        ({"escape": "__import__('os') > 1"}, "escape"),
        ({"rotation": "p"}, "no angle"),
        ({"rotation": "1,2,3"}, "expected a point"),
    ],
)
def test_what_cannot_be_measured(given, said, pendulum, tmp_path):
    with pytest.raises(InputError, match=said):
        vp.rollout.ensemble(
            pendulum, tmp_path / "a.h5", initial=3, steps=2, measures=measures(**given)
        )
    assert not list(tmp_path.iterdir())


def test_models_of_windows_are_refused(tmp_path, model):
    windows = vp.models.VolumePreservingTransformer(dim=2, window=3)
    windows.metadata.update(model.metadata)
    with pytest.raises(InputError, match="a single state"):
        vp.rollout.ensemble(windows, tmp_path / "a.h5", initial=3, steps=2)


def test_the_region_of_a_model_is_its_escape(model, tmp_path):
    model = vp.models.SymplecticFeedForward(dim=2, depth=2, width=4)
    system = vp.load_system("harmonic-oscillator")
    model.metadata.update({"system": system.text, "system_name": "oscillator", "parameters": "{}"})
    region = {"components": {system.components[0]: [-0.5, 0.5]}, "invariants": {}}
    model.metadata.update({"step": "1", "region": json.dumps(region)})
    initial = [[0.0, 0.0], [0.59, 0.0], [0.61, 0.0], [0.0, 9.0]]
    found = vp.rollout.ensemble(
        model, tmp_path / "a.h5", initial=initial, steps=3, measures=measures()
    )
    assert found.left[2] == 0 and found.left[0] == -1
    again = vp.rollout.open_ensemble(tmp_path / "a.h5")
    assert again.plan.escape == found.plan.escape


def test_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("standard.toml").write_text(STANDARD_MAP, encoding="utf-8")
    call = CliRunner().invoke
    few = ["--ensemble", "50", "--steps", "30", "--resolution", "40x30"]
    start = ["--initial", "0:3,0:1"]
    result = call(rollout.main, ["--system", "standard.toml", *few, *start, "--rotation", "q"])
    assert result.exit_code == 0, result.output
    found = vp.rollout.open_ensemble("standard-ensemble.h5")
    assert found.density.shape == (30, 40) and len(found.initial) == 49
    assert found.initial[-1].tolist() == [3.0, 1.0] and found.plan.angle == 0
    result = call(rollout.main, ["--system", "pendulum", "--against", "rk4", *few, "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["table"][0]["states"] == 50 * 31
    for wrong, said in (
        (["--against", "rk4,heun", *few], "one map"),
        (["--against", "rk4", "--plane", "q,p"], "add --ensemble"),
        (["--against", "rk4", *few, "--threshold", "1"], "not for an ensemble"),
        (["--against", "rk4", *few, "--initial", "0,0"], "ranges"),
        (["--against", "rk4", *few, "--resolution", "big"], "cells on a side"),
        (["--against", "rk4", *few, "--workers", "2", "--scheduler", "a"], "has its own"),
    ):
        result = call(rollout.main, ["--system", "pendulum", *wrong, "-o", "b.h5"])
        assert result.exit_code == 2 and said in result.output, result.output
    assert not Path("b.h5").exists()


def test_periodic_points():
    """The pendulum's upper equilibrium, and two points that the standard map exchanges."""
    flow = vp.rollout.as_flow("rk4", vp.load_system("pendulum"), 0.1)
    point = vp.rollout.periodic_point(flow, [3.0, 0.1])
    np.testing.assert_allclose(point, [np.pi, 0.0], atol=1e-10)
    standard = vp.rollout.ExactMap(vp.load_system(STANDARD_MAP))
    two = vp.rollout.periodic_point(standard, [0.0, 3.0], period=2)
    images = standard.map(np.array([[two]]))
    np.testing.assert_allclose(two, [0.0, np.pi], atol=1e-10)
    np.testing.assert_allclose(images[0, 0], [np.pi, np.pi], atol=1e-10)
    with pytest.raises(InputError, match="no point of period 1"):
        constant = vp.load_system('state = ["x"]\n[vector_field]\nx = "1"')
        vp.rollout.periodic_point(vp.rollout.as_flow("rk4", constant, 0.1), [0.0])


def test_an_ensemble_of_nothing_is_none(pendulum, tmp_path):
    found = vp.rollout.ensemble(
        pendulum, tmp_path / "a.h5", initial=5, steps=4, measures=measures(escape="q < 9")
    )
    assert found.density.sum() == 0 and found.confined.tolist() == [0.0] * 5
    assert replace(found, rotation=None).table()[0]["states"] == 0


def test_whole_turns_are_those_of_the_flow():
    """An oscillator of the frequency 2.7 turns clockwise 2.7 times in a period of its forcing."""
    system = vp.load_system(
        """
        state = ["q", "p"]
        time = "t"
        period = "2*pi"
        hamiltonian = "2.7*(p**2 + q**2)/2 - 0.3*q*cos(t)"
        """
    )
    returns = vp.return_map(system, "t = 0")
    flow = vp.rollout.ExactMap(returns)
    centre = vp.rollout.periodic_point(flow, [0.3, 0.1])
    turns = run.turns_between_returns(returns, (0, 1), tuple(centre))
    np.testing.assert_allclose(turns, -2.7, atol=1e-6)
    assert run.turns_between_returns(vp.load_system(STANDARD_MAP), (0, 1), (0.0, 0.0)) == 0.0


def test_turns_are_told_with_whole_ones():
    asked = plan(vp.load_system("harmonic-oscillator"), steps=20, near=-1.8, centre=(0.0, 0.0))
    angles = -2 * np.pi * 0.7 * np.arange(21)
    statistics = Statistics(asked, 1)
    states = np.stack([np.cos(angles), np.sin(angles)], axis=-1)[None]
    statistics.add(np.arange(1), states, 0)
    np.testing.assert_allclose(statistics.counts.rotation, -1.7, atol=1e-13)


HALF = '{"components": {"q": [-0.5, 0.5]}, "invariants": {}}'


@pytest.fixture
def half_trained(model):
    """A map that was trained where -0.5 < q < 0.5."""
    import torch

    torch.manual_seed(0)
    half = vp.models.SymplecticFeedForward(dim=2, depth=2, width=4)
    half.metadata.update({**model.metadata, "region": HALF})
    return half


def test_who_leaves_the_training_domain_is_told(half_trained, tmp_path):
    """Also where an aperture of its own says what is outside, by machine code and without."""
    initial = [[0.0, 0.0], [0.54, 0.0], [0.56, 0.0], [0.0, 0.6], [2.0, 0.0]]
    path, asked = tmp_path / "a.h5", measures(escape="q**2 > 3.9")
    found = vp.rollout.ensemble(half_trained, path, initial=initial, steps=40, measures=asked)
    states = np.array(initial)[:, None]
    flow = LearnedFlow(half_trained, found.system)
    states = np.concatenate([states, flow.start(states).advance(40)], axis=1)
    beyond = np.abs(states[..., 0]) > 0.5 + 0.1 * 1.0
    first = np.where(beyond.any(axis=1), beyond.argmax(axis=1), -1)
    np.testing.assert_array_equal(found.left_domain, [*first[:4], -1])
    assert found.left.tolist() == [-1, -1, -1, -1, 0] and first.max() > 0
    count = int((first[:4] >= 0).sum())
    assert found.table()[0]["left_domain"] == count
    assert f"{count} of 5 trajectories are out of the training domain" in found.domain_words
    by_numpy = Statistics(found.plan, 5, compiled=False)
    by_numpy.add(np.arange(5), states[:, :1], 0)
    by_numpy.add(np.arange(5), states[:, 1:], 1)
    np.testing.assert_array_equal(by_numpy.counts.left_domain, found.left_domain)
    again = vp.rollout.open_ensemble(path)
    np.testing.assert_array_equal(again.left_domain, found.left_domain)
    assert again.plan.domain == found.plan.domain
    np.testing.assert_allclose(again.in_domain[-1], 1 - (count + 1) / 5)


def test_leaving_the_training_domain_is_said_once(half_trained, pendulum, tmp_path):
    usual = vp.rollout.ensemble(
        half_trained, tmp_path / "a.h5", initial=20, steps=5, measures=measures()
    )
    assert usual.left_domain is None and not usual.domain_words
    assert usual.table()[0]["left_domain"] == (usual.left >= 0).sum()
    classical = vp.rollout.ensemble(
        pendulum, tmp_path / "b.h5", initial=3, steps=5, measures=measures()
    )
    assert not classical.domain_words and classical.table()[0]["left_domain"] is None
    del half_trained.metadata["region"]
    unknown = vp.rollout.ensemble(
        half_trained, tmp_path / "c.h5", initial=3, steps=5, measures=measures()
    )
    assert "does not say" in unknown.domain_words


def test_turns_in_a_plane_that_is_not_canonical(tmp_path):
    """None of their own accord, and marked where they are asked for."""
    flow = vp.rollout.as_flow("stoermer-verlet", vp.load_system("henon-heiles"), 0.2)
    for number, (plane, rotation, turning, projected) in enumerate(
        [
            ("q[0],q[1]", "auto", False, False),
            ("q[0],q[1]", "0,0", True, True),
            ("q[0],p[1]", "auto", False, False),
            ("q[1],p[1]", "auto", True, False),
        ]
    ):
        found = vp.rollout.ensemble(
            flow,
            tmp_path / f"{number}.h5",
            initial=5,
            steps=20,
            measures=measures(plane=plane, rotation=rotation),
        )
        assert (found.plan.turning, found.plan.projected) == (turning, projected)
    given = ["--system", "rigid-body", "--against", "rk4", "--ensemble", "4", "--steps", "9", "-o"]
    result = CliRunner().invoke(rollout.main, [*given, str(tmp_path / "rigid.h5")])
    assert result.exit_code == 0 and "no turns: (z1, z2)" in result.output, result.output


DOUBLE_WELL = """
state = ["q", "p"]
hamiltonian = "p**2/2 - q**2/2 + q**4/4"
[initial_conditions]
distribution = "uniform"
low = { q = -1.6, p = -0.5 }
high = { q = 1.6, p = 0.5 }
"""


def test_turns_are_of_an_angle_or_about_an_elliptic_point(tmp_path):
    """Not about the saddle between two wells, nor about one that is nearest to the mean."""
    standard = vp.rollout.ExactMap(vp.load_system(STANDARD_MAP))
    asked = measures(rotation="auto")
    found = vp.rollout.ensemble(standard, tmp_path / "a.h5", initial=20, steps=50, measures=asked)
    assert found.plan.angle == 0 and found.plan.centre_words == "of the angle q"
    wells = vp.rollout.as_flow("stoermer-verlet", vp.load_system(DOUBLE_WELL), 0.2)
    found = vp.rollout.ensemble(wells, tmp_path / "b.h5", initial=20, steps=50, measures=asked)
    np.testing.assert_allclose(np.abs(found.plan.centre), [1.0, 0.0], atol=1e-9)
    assert "about the elliptic fixed point" in found.plan.centre_words
    saddle = vp.load_system('state = ["q", "p"]\nhamiltonian = "q*p"')
    flow = vp.rollout.as_flow("rk4", saddle, 0.01)
    beside = np.random.default_rng(0).uniform(0.5, 1, (9, 2))
    found = vp.rollout.ensemble(flow, tmp_path / "c.h5", initial=beside, steps=9, measures=asked)
    assert found.plan.about == "mean" and "no elliptic" in found.plan.centre_words
    again = vp.rollout.open_ensemble(tmp_path / "c.h5")
    assert again.plan.as_json() == found.plan.as_json()


def test_turns_of_an_angle_are_of_any_size(tmp_path):
    """Rotations slower and faster than in the first step by more than half a turn."""
    system = """
    state = ["q", "p"]
    periodic = { q = "2*pi" }
    symplectic = true
    [[map]]
    p = "p + 3*sin(q)"
    [[map]]
    q = "q + p"
    """
    flow = vp.rollout.ExactMap(vp.load_system(system))
    initial = np.random.default_rng(0).uniform(-3, 3, (50, 2))
    states = np.stack([initial, *flow.start(initial[:, None]).advance(60).swapaxes(0, 1)], axis=1)
    plain = np.diff(states[..., 0], axis=1) @ birkhoff_weights(60)[:, 0] / (2 * np.pi)
    asked = plan(flow.system, steps=60, angle=0)
    for compiled in (None, False):
        statistics = Statistics(asked, 50, compiled)
        statistics.add(np.arange(50), states, 0)
        found = statistics.counts.rotation
        np.testing.assert_allclose(found, plain - np.round(plain), atol=1e-12)


def test_the_tolerance_is_of_the_length(pendulum, tmp_path):
    given = ["--system", "standard-map", "--ensemble", "30", "--steps", "200", "-o"]
    result = CliRunner().invoke(rollout.main, [*given, str(tmp_path / "a.h5")])
    assert result.exit_code == 0, result.output
    said = " ".join(result.output.split())
    assert "turns per step of the angle q: from" in said
    assert "within 1.3e-04, the tolerance of 200 steps" in said
    assert "to tell tori from chaos takes 10,000 steps" in said
    found = vp.rollout.open_ensemble(tmp_path / "a.h5")
    assert found.table()[0]["tolerance"] == found.tolerance == (10 / 200) ** 3
    enough = replace(found, plan=replace(found.plan, steps=10**6))
    assert enough.tolerance == 1e-10 and "are enough" in enough.length_words
