"""The studies of the benchmarks, each on small cases for an instant: their tables and files."""

import json
import math
import time
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import vpintegrator as vp
from tests.scripts.conftest import run
from vpintegrator.errors import InputError


def read(path):
    return json.loads(path.read_text())


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_accuracy(script, tmp_path):
    arguments = ["--seconds", "0.5", "--steps", "1000", "--only", "vpff,published,vpff-adam"]
    run(script("accuracy"), *arguments)
    lines = [line for line in (tmp_path / "accuracy.md").read_text().splitlines() if "| " in line]
    header, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert "at 1,000 steps" in header
    assert [row[0] for row in rows] == ["vpff", "published", "vpff-adam"]
    assert [row[1] for row in rows] == ["576", "180", "576"]
    errors, ratios = ([float(row[k].replace(",", "")) for row in rows] for k in (2, 3))
    assert ratios[0] == 1  # the best of ours, even where a peer is better after an instant
    assert ratios == pytest.approx([error / errors[0] for error in errors], rel=0.1, abs=0.1)
    assert "--overwrite" in run(script("accuracy"), *arguments, code=2)


@pytest.mark.parametrize("name", ["volnet", "volnet-p"])
def test_strupnet_as_an_integrator(script, name):
    """Whatever its layers, it is the peer's own map, in double precision, and keeps volume."""
    pytest.importorskip("strupnet")
    dataset = vp.generate("rigid-body", "few.h5", count=20)
    torch.set_default_dtype(torch.float32)
    model = script("accuracy").ENTRIES[name].make(dataset)
    assert torch.get_default_dtype() == torch.float32
    assert all(parameter.dtype == torch.float64 for parameter in model.parameters())
    methods = {layer.method for layer in model.core.net.layer_list}
    assert methods == {"P" if name == "volnet-p" else "R"}
    state = torch.tensor([0.3, -0.5, 0.8], dtype=torch.float64)
    assert torch.equal(model(state[None])[0], model.core.net(state, dataset.step))
    jacobian = torch.func.jacrev(lambda z: model(z[None])[0])(state)
    assert math.isclose(torch.linalg.det(jacobian).item(), 1.0, abs_tol=1e-12)
    assert vp.train(model, dataset, optimizer="adam", epochs=2).test_error < 1


def test_attention(script, tmp_path):
    options = ("--seconds", "1", "--seeds", "1", "--count", "30", "--model", "vpff")
    output = run(script("attention"), "--folder", ".", "--case", "a component unseen", *options)
    assert "after 20 steps" in output and (tmp_path / "a-component-unseen.h5").exists()


@pytest.mark.filterwarnings("ignore")  # of models that have learned nothing in an instant
def test_long_rollouts_of_windows(script, tmp_path, monkeypatch, capsys):
    """Each seed leaves a model and a record, from which a second run makes the same table."""
    long = script("long_windows")
    options = {"seconds": 0.3, "grows": False, "steps": (10, 30), "count": 40}
    choice = (tmp_path, ["rigid-body"], ["resnet"], [3])
    for name in ("compare", "rollout"):
        monkeypatch.setattr(vp, name, partial(getattr(vp, name), compiled=False))
    long.compare_windows(*choice, seeds=1, **options)
    table = capsys.readouterr().out
    records = [read(path) for path in sorted(tmp_path.glob("rigid-body-neurons-resnet-3-3-*.json"))]
    assert len(records) == 1 and "squared momentum, 30" in table
    for record in records:
        assert len(record["lost"]) == 2 and record["windows"] > 1e-3
        assert record["drift"]["energy"][0] <= record["drift"]["energy"][1]
        assert record["drift"]["energy"][1] <= record["worst"]["energy"][1]
    monkeypatch.setattr(long, "trained", None)  # what is there is not done again
    long.compare_windows(*choice, seeds=1, **options)
    assert capsys.readouterr().out.splitlines()[-4:] == table.splitlines()[-4:]


def test_rows_of_long_rollouts(script):
    """Every window is whole or shifted, and symplectic models are for canonical systems."""
    long = script("long_windows")
    body, oscillators = map(vp.load_system, ("rigid-body", "coupled-oscillators"))
    rows = long.rows_of(body)
    assert {row.model for row in rows} == {"vpt", "vpmt", "transformer", "resnet", "vpff"}
    assert {row.model for row in long.rows_of(oscillators)} == {*long.rows_of(body)[0][:1]} | {
        *("vpmt", "transformer", "resnet", "vpff", "spt", "spff")
    }
    assert {row.window for row in rows if row.model == "vpt"} == {2, 3, 5, 8}
    words = {row.words for row in rows if row.model == "vpt"}
    assert words == {"whole", "shifted"}
    assert [row.words for row in rows if row.window == 1] == ["last state", "last state"]
    assert all(vp.load_system(path).invariants for path in long.SYSTEMS.values())


def here(call, *arguments):
    """Measure in this process."""
    call(*arguments)
    return ""


@pytest.mark.thorough
def test_the_catalogue(script, tmp_path, monkeypatch):
    module = script("catalogue")
    monkeypatch.setattr(module, "in_a_process", here)
    options = ["--folder", ".", "--seconds", "1", "--systems", "harmonic-oscillator"]
    output = run(module, *options)
    rollout = read(tmp_path / "harmonic-oscillator-default.json")["rollout"]
    assert {"default", "rk4", "dormand-prince-8"} < set(rollout)
    assert rollout["default"]["RMSE"] < 1e-9 < rollout["rk4"]["RMSE"]
    assert "RMSE / RK4: below 1 on 1 of 1" in output
    assert output.splitlines()[-1] == "not measured: none"
    monkeypatch.setattr(module, "measure", None)  # what is there is not done again
    again = run(module, *options, "--figure", "catalogue.png")
    assert (tmp_path / "catalogue.png").read_bytes().startswith(b"\x89PNG")
    assert again.splitlines()[-1] == output.splitlines()[-1]


@pytest.mark.parametrize(
    ("own", "rk4", "below"),
    [
        *((1e-4, 2e-3, True), (1e-4, 1e-5, False), (1e-4, math.nan, True)),
        *((math.nan, 1.0, False), (math.inf, math.inf, False)),
    ],
)
def test_an_error_that_is_no_number_is_larger_than_all_others(script, own, rk4, below):
    rows = {"default": {"RMSE": own}, "rk4": {"RMSE": rk4}}
    assert script("catalogue").is_below({"rollout": rows}, ["rk4"]) == below


def test_generating_functions(script, compiler, tmp_path, monkeypatch):
    """Without heyoka, and with couplings that are not trained."""
    module, small = script("generating_functions"), {"count": 30, "steps": 10}

    def couplings(data):
        if data.system.is_discrete:
            raise InputError("there are none")
        arguments = {"functions": "polynomial", "degree": 3, "depth": 1}
        model = vp.models.build(data.system, vp.models.suited(data.system), arguments)
        return SimpleNamespace(model=model, error=0.5)

    cases = {"product-oscillator": small, "a map": {"system": "henon-map"} | small}
    monkeypatch.setattr(script("maps_peers"), "taylor", lambda *arguments: lambda states: states)
    for name, value in {"couplings": couplings, "CASES": cases, "TRAJECTORIES": 16}.items():
        monkeypatch.setattr(module, name, value)
    output = run(module, "--folder", ".", "--quick", "--markdown")
    oscillator, of_map = (read(tmp_path / f"{name}-generating-functions.json") for name in cases)
    assert oscillator["model"] == "sgf"
    assert oscillator["validation"] < 1e-6 and oscillator["test"] < 1e-6
    assert oscillator["couplings"] == 0.5 and oscillator["gauss-legendre-6"] < 1e-3
    assert oscillator["cost"].keys() == {"solved", "couplings", "gauss-legendre-6", "heyoka"}
    assert all(cost > 0 for cost in oscillator["cost"].values())
    assert of_map["validation"] < 1e-10  # quadratic, as its generating function
    assert of_map["couplings"] is None and of_map["gauss-legendre-6"] is None
    assert of_map["cost"].keys() == {"solved"}
    assert f"|{oscillator['validation']:.1e}|" in output


@pytest.fixture
def maps(script, monkeypatch):
    """The benchmark of maps over a turn with few settings."""
    module, harness = script("maps"), script("harness")
    monkeypatch.setattr(harness, "_SAMPLE", 0.0)
    monkeypatch.setattr(harness, "_FEWEST", 1)
    cases = {
        "pendulum": module.Case("pendulum", 1.0, train=20),
        "forced": module.Case("forced-pendulum", train=20),
        "section": module.Case("henon-heiles", energy=1 / 12, train=20),
    }
    few = {"TOLERANCES": (1e-6,), "SCIPY": (1e-6,), "CLASSICAL": ("rk4",), "STEPS": (32,)}
    for name, value in (few | {"CASES": cases}).items():
        monkeypatch.setattr(module, name, value)
    return module


def test_what_moves_states_gives_the_same(maps):
    """All solvers of a case, heyoka among them where it is installed, at a moderate accuracy."""
    for case in maps.CASES.values():
        for candidate in maps.solvers(case, maps.Turn(case, 16)):
            assert candidate.error() < 1e-2, candidate.method
            assert candidate.once().shape[1] == candidate.turns


def test_maps(maps, tmp_path):
    arguments = {"functions": "polynomial", "degree": 3}
    for name, case in maps.CASES.items():
        model = vp.models.build(maps.Turn(case, 1).learned, arguments=arguments)
        vp.save(model, f"{name}.safetensors")
    output = run(maps, "--folder", ".", "--quick", "--figure", "maps.png")
    forced = read(tmp_path / "forced.json")
    assert forced["turn"] == pytest.approx(np.pi) and forced["dim"] == 2
    assert forced["rows"][0]["method"] == "learned"
    assert (tmp_path / "maps.png").stat().st_size > 10_000
    assert "best / learned" in output


def test_splittings(script, compiler, tmp_path, monkeypatch):
    module = script("splittings")
    few = {"CASES": ("pendulum",), "STAGES": (10,), "WITH_COMMUTATORS": (3,)}
    for name, value in few.items():
        monkeypatch.setattr(module, name, value)
    vp.generate("pendulum", "pendulum.h5", count=30, steps=10)
    output = run(module, "--folder", ".", "--quick", "--markdown")
    found = read(tmp_path / "pendulum-splittings.json")
    assert [row["stages"] for row in found["rows"]] == [10, 3]
    assert all(row["error"] < found["peers"]["blanes-moan-4"][0] for row in found["rows"])
    assert found["rows"][0]["error"] < found["peers"]["blanes-moan-6"][0]
    assert "|pendulum|" in output


def test_symplectic_networks(script, tmp_path, monkeypatch):
    """Entries are measured in this process."""
    module = script("symplectic")
    length = {"steps": 10, "trajectories": 3, "tangent_steps": 0, "compiled": False}
    monkeypatch.setattr(module, "rollout_options", lambda: length)
    monkeypatch.setattr(module, "in_a_process", here)
    output = run(module, "--folder", ".", "--quick", "--markdown")
    names = ("spff", "stoermer-verlet", "henonnet-adam")
    own, verlet, peer = (read(tmp_path / f"pendulum-{name}.json") for name in names)
    assert own["form"] < 1e-13 and own["on windows"] is None
    assert verlet["form"] < 1e-13 and 0 < verlet["error"] < 1e-2
    assert peer["form"] < 1e-12 and peer["on windows"] is None
    assert f"|{own['error']:.1e}, {own['RMSE']:.1e}|" in output


def test_maps_from_states(script, tmp_path):
    figure = tmp_path / "pairs.png"
    options = ["--learners", "vp.fit,ridge", "--seconds", "5", "--figure", str(figure)]
    arguments = ["--folder", str(tmp_path), "--systems", "harmonic-oscillator", "--counts", "8,16"]
    module = script("from_states")
    for _ in range(2):  # the second run reads what the first one wrote
        output = run(module, *arguments, *options)
        assert "harmonic-oscillator-8-0" in output and "harmonic-oscillator-16-0" in output
        assert "first: 2 of 2" in output
    assert figure.stat().st_size > 1_000
    assert len(list(tmp_path.glob("*-ridge.json"))) == 2


def test_networks(script, tmp_path, monkeypatch):
    """Entries are measured in this process; a model that does not suit the system has a dash."""
    length = {"steps": 10, "trajectories": 3, "tangent_steps": 0, "compiled": False}
    symplectic = script("symplectic")
    monkeypatch.setattr(symplectic, "rollout_options", lambda: length)
    monkeypatch.setattr(script("networks"), "in_a_process", here)
    output = run(script("networks"), "--folder", ".", "--quick", "--markdown")
    couplings, rk4 = (read(tmp_path / f"rigid-body-{name}.json") for name in ("vpff", "rk4"))
    assert not couplings["equations"] and "from states" in output
    assert f"|{couplings['error']:.1e}, {couplings['RMSE']:.1e}|" in output
    assert 1e-8 < rk4["error"] < 1e-6
    assert "failure" in read(tmp_path / "rigid-body-spff.json")
    rows = [line.strip("|").split("|") for line in output.splitlines() if line.startswith("|")]
    assert [cell.strip() for cell in rows[-1]] == ["spff", "-"]


def test_budgets_in_processor_time(script):
    """A budget does not run down while the process waits."""
    wall = time.perf_counter
    with script("harness").processor_seconds():
        budget = vp.training.Budget(seconds=0.2)
        time.sleep(0.3)
        assert budget.left > 0
    assert time.perf_counter is wall


def test_published_tasks(script, tmp_path, monkeypatch):
    """The protocol of Hamiltonian networks for an instant, and a task of trajectories."""
    published = script("published")
    symplectic = script("symplectic")
    length = {"steps": 10, "trajectories": 3, "tangent_steps": 0, "compiled": False}
    monkeypatch.setattr(symplectic, "rollout_options", lambda: length)
    monkeypatch.setattr(symplectic, "in_a_process", lambda call, *arguments: call(*arguments))
    monkeypatch.setattr(published, "ITERATIONS", 300)
    monkeypatch.setattr(published, "WIDTH", 30)
    vp.generate("henon-heiles", "henon-heiles.h5", count=60, steps=5)
    options = ("--folder", ".", "--seeds", "1", "--seconds", "2", "--markdown")
    options += ("--tasks", "spring,henon-heiles", "--networks", "gru,ours")
    output = run(published, *options)
    network, plain = (read(tmp_path / f"spring-{name}-0.json") for name in ("hnn", "mlp"))
    # rates (2 p, -2 q) of states with noise 0.1: no field errs by less than the noise in it
    assert 0.025 < network["error"] < 0.06 and 0.025 < plain["error"] < 0.1
    gru, ours = (read(tmp_path / f"henon-heiles-{name}-0.json") for name in ("gru", "ours"))
    assert ours["error"] < 1e-2 * gru["error"]
    assert f"|{ours['error']:.1e}, {ours['RMSE']:.1e}|" in output
    assert "|spring (field)|mlp 3.7e-02, hnn 3.6e-02|" in output
    before = (tmp_path / "spring-hnn-0.json").stat().st_mtime_ns
    assert run(published, *options) == output[output.index("**") :]
    assert (tmp_path / "spring-hnn-0.json").stat().st_mtime_ns == before


def test_the_fields_of_published_tasks_are_those_of_their_energies(script):
    published = script("published")
    energies = {
        "spring": lambda z: z[0] ** 2 + z[1] ** 2,
        "pendulum": lambda z: 3 * (1 - torch.cos(z[0])) + z[1] ** 2,
    }
    for name, energy in energies.items():
        z = torch.tensor([0.7, -0.4], dtype=torch.float64, requires_grad=True)
        (by_q, by_p) = torch.autograd.grad(energy(z), z)[0]
        slopes = published.FIELDS[name].slopes(z.detach().numpy())
        assert slopes == pytest.approx([by_p.item(), -by_q.item()])
        states, held_out, rates, _ = published.field_data(name, 0)
        assert states.shape == rates.shape == (25 * published.FIELDS[name].points, 2)
        assert held_out.shape == states.shape and states.dtype == torch.float32


def fail(name, seconds):
    raise ValueError(name)


def work(name, seconds):
    while True:
        sum(range(1000))


@pytest.mark.parametrize(
    ("call", "limit", "reason"),
    [(print, 60.0, ""), (fail, 60.0, "it failed as said above"), (work, 0.1, "it takes more than")],
)
def test_a_measurement_that_fails_or_hangs_is_left_out(script, call, limit, reason):
    result = script("harness").in_a_process(call, "a system", 1.0, seconds=limit)
    assert result.startswith(reason) and bool(result) == bool(reason)
