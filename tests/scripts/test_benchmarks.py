"""The benchmarks of speed run, quickly; what they measure is for a quiet machine."""

import subprocess
import sys
import time

import mpmath
import numpy as np
import pytest
import torch

import vpintegrator as vp
from tests.scripts.conftest import BENCHMARKS, run

DTYPES = (torch.float32, torch.float64)


def cells(output):
    """Rows of the first Markdown table, the header first."""
    lines = output.partition("|")[2].partition("\n\n")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in lines]
    return [rows[0], *rows[2:]]


def test_candidates_take_turns(script):
    order = []

    def candidate(name):
        def call():
            order.append(name)
            time.sleep(0.02)  # longer than a sample

        return call

    spent = script("harness").time_together({"a": candidate("a"), "b": candidate("b")}, 0.0)
    assert spent.keys() == {"a", "b"} and min(spent.values()) > 0
    assert order[-6:] in (list("abbaab"), list("baabba"))


def test_rollout(script, compiler):
    header, *rows = cells(run(script("rollout"), "--quick", "--markdown"))
    assert [row[0] for row in rows] == ["40, float32", "1, float32"]
    assert header[:2] == ["trajectories", "ours"]
    assert "by eager" in header


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_network_in_jax_is_the_same(script, dtype):
    jax = pytest.importorskip("jax", reason="jax is in the extra bench")
    rollout = script("rollout")
    model, windows = rollout.published(dtype), rollout.first_windows(5, dtype)
    with torch.no_grad():  # weights of size one: every layer matters
        for parameter in model.parameters():
            parameter *= 10
    expected = rollout.iterate(model, windows, 2).numpy().reshape(5, 2, 3, 3)
    last = jax.numpy.asarray(windows.numpy().transpose(1, 2, 0))
    found = np.asarray(script("jax_transformer").rollout(model, 2)(last)).transpose(3, 0, 1, 2)
    assert np.abs(found - expected).max() < 50 * np.finfo(found.dtype).eps * np.abs(expected).max()


def test_gpu(script, compiler):
    """PyTorch on the processor in place of a GPU; sides that differ are an error."""
    module = script("gpu")
    header, *rows = cells(run(module, "--device", "cpu", "--quick", "--markdown"))
    assert header == ["model", "work", "machine code", "cpu", "ratio", "difference"]
    work = [
        (name, each) for name in ("vpt", "vpmt", "transformer") for each in ("epoch", "rollout")
    ]
    assert [(row[0], row[1]) for row in rows] == work
    assert all(0 < float(row[5]) < 1e-12 for row in rows)


def test_a_gpu_that_computes_something_else_is_an_error(script, compiler, monkeypatch):
    module = script("gpu")
    monkeypatch.setattr(module, "MODELS", ("transformer",))
    monkeypatch.setattr(module, "difference", lambda one, other: 1e-9)
    assert "differ by 1.0e-09" in run(module, "--device", "cpu", "--quick", code=2)


def test_without_a_gpu_the_benchmark_says_so(script, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "PyTorch finds no GPU" in run(script("gpu"), code=2)


def test_generation(script):
    header, *rows = cells(run(script("generation"), "--quick", "--markdown"))
    assert header == ["method and tolerance", "time", "by vp.generate", "largest error"]
    errors = {row[0]: float(row[3]) for row in rows}
    assert errors["vp.generate, file written"] < 1e-12
    assert 1e-12 < errors["solve_ivp, each alone, 1e-12"] < 1e-10
    # the two that a bound compares are equally accurate
    assert errors["solve_ivp, each alone, 3e-14"] > 0.5 * errors["vp.generate, file written"]


@pytest.mark.parametrize(
    "state", [(0.6, 0.48, 0.64), (-0.2, 0.5, 0.8), (0.9, -0.3, -0.1), (0.1, -0.7, 0.7)]
)
def test_the_exact_rigid_body(script, state):
    """Against the Taylor method of mpmath, with 30 digits."""
    with mpmath.workdps(30):
        solution = mpmath.odefun(
            lambda _, z: [z[1] * z[2] / 2, -z[2] * z[0], z[0] * z[1] / 2],
            0,
            [mpmath.mpf(x) for x in state],
        )
        expected = [[float(x) for x in solution(t)] for t in (0, 1, 7)]
    found = script("generation").exact(np.array([state]), np.array([0.0, 1.0, 7.0]))[0]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14)


def test_work_precision(script, compiler, tmp_path):
    path = tmp_path / "network.safetensors"
    arguments = "--quick", "--markdown", "--network", str(path)
    header, *rows = cells(run(script("work_precision"), *arguments))
    errors = {row[0]: float(row[3]) for row in rows}
    assert {"network", "rk4, compiled", "SciPy's DOP853"} < set(errors)
    assert errors["gauss-legendre-4, compiled"] < errors["implicit-midpoint, compiled"] < 0.02
    assert errors["yoshida-8, compiled"] < errors["rk4, compiled"] < 1e-3
    assert header[3] == "errors at t = 4"
    changed = path.stat().st_mtime_ns
    run(script("work_precision"), *arguments)  # it is not trained again
    assert path.stat().st_mtime_ns == changed


def test_gradients(script):
    pytest.importorskip("torchdiffeq", reason="torchdiffeq is in the extra bench")
    gradients = script("gradients")
    states, g = torch.ones(2, 2, dtype=torch.float64), torch.tensor(1.0, dtype=torch.float64)
    rk4 = vp.classical("rk4", "pendulum", gradients.STEP)
    ours, theirs = gradients.ours(rk4, states, g, 3), gradients.torchdiffeq_rk4(states, g, 3)
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=0)
    header, *rows = cells(run(gradients, "--quick", "--markdown"))
    assert header[1:3] == ["method", "step with gradient"]
    assert [row[1] for row in rows] == [*gradients.METHODS, "torchdiffeq rk4"]


def test_long_windows(script, compiler):
    header, row = cells(run(script("windows"), "--quick", "--markdown"))
    assert header[:4] == ["model", "window", "operations", "made in"]
    assert row[:2] == ["vpt", "4"]


def test_attention_on_windows_of_incomplete_states(script, tmp_path):
    options = ("--quick", "--seconds", "1", "--seeds", "1", "--cases", "unseen", "--windows", "2")
    arguments = ("--folder", tmp_path, *options, "--models", "transformer,ridge", "--markdown")
    header, row = cells(run(script("incomplete_windows"), *arguments))
    assert header == ["window", "transformer", "ridge"]
    assert row[0] == "2"
    assert float(row[2].split("/")[0]) < 0.1
    files = {path.name for path in tmp_path.glob("*.json")}
    assert files == {"unseen-transformer-2-0.json", "unseen-ridge-2-0.json"}


def test_training(script, compiler, monkeypatch):
    """As if JAX were not installed; a layer of the network, not three."""

    def small(**options):
        sizes = {"prediction_window": 3, "depth": 1, "feed_forward": "triangular"}
        kind = vp.models.VolumePreservingTransformer
        return kind(dim=3, weighting="arbitrary", **sizes, **options)

    monkeypatch.setitem(sys.modules, "jax_transformer", None)
    module = script("training")
    monkeypatch.setitem(module.MODELS, "published vpt", small)
    output = run(module, "--quick", "--seconds", "0", "--markdown")
    steps, epochs, jacobians = script("record_figure").tables(output).values()
    assert [row["dtype"] for row in steps] == ["float64", "float32"]
    assert [row["windows"] for row in jacobians] == ["32"]
    assert [row["dtype"] for row in epochs] == ["float32"]
    assert {row["model"] for row in (*steps, *epochs, *jacobians)} == {"published vpt"}
    assert {row["parameters"] for row in steps} == {"60"}
    # nothing is said of a peer that is not installed
    assert all(row["jax"] == row["jax / compiled"] == "" for row in steps)


def test_export(script, compiler, monkeypatch, tmp_path):
    export, path = script("export"), tmp_path / "network.safetensors"
    model = vp.models.VolumePreservingFeedForward(dim=3, width=3, depth=1, initial_scale=0.1)
    vp.save(model, path)
    monkeypatch.setattr(export, "FLAGS", ("-O1",))
    output = run(export, "--quick", "--markdown", "--network", str(path))
    header, *rows = cells(output)
    assert header == ["network", "library", "cc -O1", "eager"]
    assert [row[0] for row in rows] == ["polynomials", "transformer"]


@pytest.mark.parametrize("old", ["", "old\n"])
def test_the_record(script, tmp_path, monkeypatch, old):
    """The command that runs all, with a benchmark that says what it was given."""
    module, document = script("all"), tmp_path / "record.md"
    (tmp_path / "rollout.py").write_text("import sys; print('given', *sys.argv[1:])")
    monkeypatch.setattr(module, "FOLDER", tmp_path)
    places = "Before\n<!-- rollout -->\n{}<!-- end -->\n<!-- startup -->\nkept\n<!-- end -->\n"
    document.write_text(places.format(old))
    run(module, "--record", str(document), "--only", "rollout", "--quick")
    written = "\ngiven --threads 1 --quick --markdown\n\n"
    assert document.read_text() == places.format(written)


def test_the_document_has_a_place_for_every_table(script):
    module = script("all")
    text = (BENCHMARKS.parents[1] / "docs/results/benchmarks.md").read_text(encoding="utf-8")
    assert all(module.place(name).search(text) for name in module.NAMES)


@pytest.mark.parametrize(
    ("name", "column", "entries"),
    [
        ("classical", 1, ["rk4", "dormand-prince-8"]),
        ("startup", 0, ["python -c pass", "vp-gen --help"]),
    ],
)
def test_other_tables(script, compiler, name, column, entries):
    _, *rows = cells(run(script(name), "--quick", "--markdown"))
    assert [row[column] for row in rows][:2] == entries


def test_processor_time_counts_what_still_runs(script):
    """A compiler that runs uses up a budget before it ends."""
    harness = script("harness")
    start = harness.processor_time() - time.process_time()
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        end = time.monotonic() + 60
        while harness.processor_time() - time.process_time() < start + 0.5:
            assert time.monotonic() < end
            time.sleep(0.05)
    finally:
        busy.kill()
        busy.wait()
