"""Comparison of observed orbits: reference, classical methods, invariants, structure, files."""

import numpy as np
import pytest
import torch

import vpintegrator as vp
from vpintegrator.data.pairs import Pairs
from vpintegrator.dynamics.structure import own_form_defect
from vpintegrator.errors import InputError
from vpintegrator.models import DiscreteLagrangianMap
from vpintegrator.plotting import markdown_table
from vpintegrator.rollout.diagnostics.completion import Rates
from vpintegrator.rollout.observed import complete_states
from vpintegrator.training.lagrangian import fit_windows


def observed(folder, system, components=(), *, count=80, steps=20, vary=None, **options):
    return vp.generate(
        system,
        folder / f"{system}.h5",
        count=count,
        steps=steps,
        vary=vary or {},
        observe={"components": [*components], **options},
        overwrite=True,
    )


def last(dataset):
    """The map that moves nothing: for what does not depend on a model."""
    model = vp.Map.from_function(lambda z: z, dataset.step, dataset.dim, name="rest")
    model.system = dataset.system
    return model


def lagrangian(dataset, degree=6):
    q = dataset.states("train")
    model = DiscreteLagrangianMap(
        dim=dataset.dim, degree=degree, reversing_symmetries=[np.eye(dataset.dim)]
    )
    model.set_normalisation(q.mean((0, 1)), 2.0 ** np.round(np.log2(q.std((0, 1)))))
    model.origin = vp.models.Origin(
        dataset.system, dataset.step, str(dataset.path), dataset.fingerprint
    )
    fit_windows(model, Pairs.of_states(q, 2, 1).pair(slice(None)))
    return model


@pytest.fixture(scope="module")
def galaxy(tmp_path_factory):
    dataset = observed(tmp_path_factory.mktemp("galaxy"), "henon-heiles", ["q1", "q2"])
    model = lagrangian(dataset)
    return dataset, model, vp.compare(model, trajectories=4, steps=60)


def test_the_dataset_of_the_training_gives_the_complete_states(galaxy):
    dataset, _, report = galaxy
    first = dataset.complete_states("test")[:4, 0]
    system = vp.load_system("henon-heiles")
    times = dataset.step * np.arange(61)
    exact = vp.solve(system, first, times)[..., :2]
    np.testing.assert_allclose(report.reference, exact, rtol=0, atol=1e-11)
    assert list(report.runs) == ["lagrangian", "implicit-midpoint", "rk4"]
    for name in ("implicit-midpoint", "rk4"):
        states = vp.integrate(system, name, first, dataset.step, 60)
        run = report.runs[name]
        assert run.is_complete and run.space == "complete states"
        np.testing.assert_allclose(run.states, states[..., :2], rtol=0, atol=1e-13)
        error = np.linalg.norm(states[..., :2] - report.reference, axis=-1)
        np.testing.assert_allclose(run.error, error, rtol=1e-6, atol=1e-12)
        energy = system.invariants["energy"](states)
        change = np.abs(energy - energy[:, :1]).max(1) / np.abs(energy[:, 0]).max()
        np.testing.assert_allclose(run.invariants["energy"].largest, change, rtol=1e-9)
    own = report.runs["lagrangian"]
    assert not own.is_complete and own.space == "windows of 2 states with their own form"
    np.testing.assert_array_equal(own.states[:, :2], report.reference[:, :2])
    assert own.root_mean_square_error.max() < 1e-5 < report.runs["rk4"].error.max()


def test_the_energy_of_a_model_is_that_of_its_momenta(galaxy):
    dataset, model, report = galaxy
    run = report.runs["lagrangian"]
    system = vp.load_system("henon-heiles")
    windows = np.stack([run.states[:, :-1], run.states[:, 1:]], 2).reshape(-1, 2, 2)
    states = np.concatenate([windows[:, 1], model.momenta(windows)], -1).reshape(4, 60, 4)
    energy = system.invariants["energy"](states)
    first = system.invariants["energy"](dataset.complete_states("test")[:4, 0])
    change = np.abs(energy - energy[:, :1]).max(1) / np.abs(first).max()
    largest = run.invariants["energy"].largest
    assert 0 < largest.max() < 1e-9
    np.testing.assert_allclose(largest, change, rtol=0.05, atol=5e-11)


def test_volume_and_form_are_those_of_windows_of_positions():
    """At any coefficients, not those of data alone."""
    torch.manual_seed(0)
    model = DiscreteLagrangianMap(dim=2, degree=4, reversing_symmetries=[np.eye(2)])
    model.adapt(torch.randn(50, 2, dtype=torch.float64))
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(1e-3 * torch.randn_like(weight))
    q = 0.3 * np.random.default_rng(0).normal(size=(3, 5, 2))
    report = vp.compare(
        model, system=measured(), reference=q, step=0.1, steps=4, compiled=False, every=1
    )
    summary = report.summary("lagrangian")
    assert summary.volume["step"] < 1e-12 and summary.volume_preserved["step"]
    assert summary.window_symplecticity < 1e-12 and summary.symplecticity is None
    windows = q[:, :2]
    assert summary.window_symplecticity == pytest.approx(own_form_defect(model, windows), abs=1e-12)
    assert "phase-space" not in summary.volume


def measured(names='"q1", "q2"'):
    return vp.load_system(f'title = "Positions"\nmeasured = true\nstate = [{names}]')


@pytest.mark.parametrize(
    ("system", "components", "options"),
    [
        ("pendulum", ["height = 1 - cos(q)", "sin(q)*p"], {}),
        ("rigid-body", ["z3", "z1"], {"noise": 1e-2}),
        ("toda", ["q"], {}),
        ("rigid-body", [], {"vary": {"I1": [1.5, 2.5]}, "hide": ["I1"]}),
        ("rigid-body", ["w = z1/I1"], {"vary": {"I1": [1.5, 2.5]}, "hide": ["I1"]}),
        ("pendulum", ["q"], {"vary": {"step": [0.1, 0.2], "g": [1.0, 2.0]}, "hide": ["step", "g"]}),
    ],
)
def test_every_observation_has_a_reference_and_classical_methods(
    system, components, options, tmp_path
):
    dataset = observed(tmp_path, system, components, **options)
    report = vp.compare(last(dataset), ["rk4"], dataset=dataset, trajectories=3, steps=30)
    hidden = dataset.complete_conditions("test", slice(3))
    first = dataset.complete_states("test")[:3, 0]
    observe = {
        "pendulum": lambda z, k: (
            z[..., :1]
            if k
            else np.stack([1 - np.cos(z[..., 0]), np.sin(z[..., 0]) * z[..., 1]], -1)
        ),
        "rigid-body": lambda z, k: (
            z[..., [2, 0]] if not k else (z if not components else z[..., :1] / k["I1"])
        ),
        "toda": lambda z, k: z[..., :8],
    }[system]
    changes = []
    sizes = []
    errors = []
    for n in range(3):
        k = {name: float(value[n]) for name, value in hidden.items()}
        step = k.pop("step", dataset.step)
        own = vp.load_system(system).with_parameters(k)
        exact = vp.solve(own, first[n : n + 1], step * np.arange(31))[0]
        np.testing.assert_allclose(report.reference[n], observe(exact, k), rtol=0, atol=1e-10)
        rk4 = vp.integrate(own, "rk4", first[n : n + 1], step, 30)[0]
        np.testing.assert_allclose(
            report.runs["rk4"].states[n], observe(rk4, k), rtol=0, atol=1e-12
        )
        energy = own.invariants["energy"](rk4)
        found = report.runs["rk4"].invariants["energy"].error[n]
        changes.append(np.abs(energy - energy[0]))
        sizes.append(np.abs(energy[0]))
        errors.append(np.abs(found))
    np.testing.assert_allclose(
        np.array(errors), np.array(changes) / max(sizes), rtol=1e-3, atol=1e-12
    )
    assert report.system.components == dataset.system.components
    assert report.complete_system.components == vp.load_system(system).components
    defect = report.runs["rk4"].symplecticity
    assert defect is None if system == "rigid-body" else defect < 1e-4


@pytest.mark.parametrize(
    ("system", "components", "options"),
    [
        ("pendulum", ["q"], {}),
        ("coupled-oscillators", ["q"], {}),
        ("double-pendulum", ["q"], {}),
        ("rigid-body", ["z1", "z2"], {}),
        ("rigid-body", ["z3", "z2"], {"vary": {"I1": [1.5, 2.5]}, "hide": ["I1"]}),
    ],
)
def test_rates_give_the_components_that_are_not_observed(system, components, options, tmp_path):
    dataset = observed(tmp_path, system, components, steps=60, count=40, **options)
    complete = complete_states(dataset, np.arange(4))
    rates = Rates(complete, dataset.step, dataset.system.periods)
    states = dataset.states("test", slice(4))
    parts = [rates.observe(k, states[:, k : k + 7]) for k in range(0, 61, 7)]
    found = np.concatenate([part for _, part in parts], axis=1)
    true = complete.states[:, 8 : 8 + found.shape[1]]
    assert found.shape[1] == 61 - 16 and parts[0][0] == 8
    assert np.abs(found - true).max() < 1e-3 * np.abs(true).max()


def test_what_is_not_known_is_said(tmp_path):
    dataset = observed(tmp_path, "henon-heiles", ["q1", "energy = p1**2 + p2**2"])
    report = vp.compare(last(dataset), dataset=dataset, trajectories=2, steps=40)
    assert report.runs["rest"].invariants == {} and report.runs["rk4"].invariants
    text = markdown_table(report)
    assert "Implicit midpoint and RK4 start from the complete states" in text
    assert "Not known of rest: energy" in text
    rows = {row["method"]: row for row in report.table()}
    assert rows["rest"]["energy error"] is None and rows["RK4"]["energy error"] > 0


def test_reports_are_stored_and_drawn(galaxy, tmp_path):
    _, _, report = galaxy
    report.save(tmp_path / "a.h5")
    again = vp.open_rollout(tmp_path / "a.h5")
    assert again.complete_system.text == report.complete_system.text
    assert again.to_frame().equals(report.to_frame())
    assert [run.is_complete for run in again.runs.values()] == [False, True, True]
    assert markdown_table(again) == markdown_table(report)
    vp.draw(again, tmp_path / "figures", formats=["png"])
    names = {path.stem for path in (tmp_path / "figures").glob("*.png")}
    assert {"overview", "errors", "invariants", "volume"} <= {n.partition("-")[0] for n in names}


def test_the_data_themselves_may_be_the_reference(tmp_path):
    dataset = observed(tmp_path, "henon-heiles", ["q"], noise=1e-2)
    report = vp.compare(
        last(dataset), ["rk4"], dataset=dataset, reference="dataset", trajectories=2
    )
    np.testing.assert_array_equal(report.reference, dataset.states("test")[:2])
    states = vp.integrate(
        dataset.complete_system, "rk4", dataset.complete_states("test")[:2, 0], dataset.step, 20
    )
    np.testing.assert_allclose(report.runs["rk4"].states, states[..., :2], atol=1e-13)


def test_positions_without_a_system_are_compared_with_themselves(tmp_path):
    source = observed(tmp_path, "henon-heiles", ["q"])
    positions = np.concatenate([source.states(group) for group in source.shapes])
    dataset = vp.import_dataset(
        positions, tmp_path / "q.h5", step=source.step, structure="lagrangian"
    )
    report = vp.compare(lagrangian(dataset), trajectories=3)
    assert list(report.runs) == ["lagrangian"] and report.complete is None
    np.testing.assert_array_equal(report.reference, dataset.states("test")[:3])
    assert report.runs["lagrangian"].root_mean_square_error.max() < 1e-6
    assert report.summary("lagrangian").window_symplecticity < 1e-9
    with pytest.raises(InputError, match="equations"):
        vp.compare(lagrangian(dataset), "rk4")


def test_mistakes(galaxy, tmp_path):
    _, model, _ = galaxy
    other = observed(tmp_path, "henon-heiles", ["p1", "p2"])
    with pytest.raises(InputError, match="holds p1, p2, but the models are of q1, q2"):
        vp.compare(model, dataset=other)
    with pytest.raises(InputError, match="4 components"):
        own = vp.classical("rk4", "rigid-body", 0.2)
        vp.compare(model, [own])
