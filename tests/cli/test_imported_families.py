"""Families of imported trajectories: trained, rolled out, compared and exported as all others."""

import numpy as np
import pytest

import vpintegrator as vp
from tests.cli.conftest import refused
from tests.data.test_importing import table_of
from vpintegrator.cli.export import main as export
from vpintegrator.cli.importing import main as importing
from vpintegrator.cli.rollout import main as rollout
from vpintegrator.cli.train import main as train
from vpintegrator.errors import InputError
from vpintegrator.rollout import open_rollout

STEP, RUNS = 0.1, 24
RANDOM = np.random.default_rng(0)
STIFFNESS, MASS = RANDOM.uniform(0.5, 2, RUNS), RANDOM.uniform(0.8, 1.2, RUNS)
START = RANDOM.uniform(-1, 1, (RUNS, 2))
NUMBERS = np.arange(21)


def swing(start, times, k, m=1.0):
    """States (time, 2) of q' = p/m, p' = -k q."""
    omega = np.sqrt(k / m)
    c, s = np.cos(omega * times), np.sin(omega * times)
    q, p = start
    return np.stack([q * c + p * s / (m * omega), p * c - m * omega * q * s], axis=-1)


def imported(stiffness=STIFFNESS, masses=None, **options):
    """A dataset of oscillators, each with its own stiffness, and its own mass if they are given."""
    parameters = {"k": stiffness} | ({} if masses is None else {"m": masses})
    rows = zip(START, *parameters.values(), strict=True)
    states = np.stack([swing(start, STEP * NUMBERS, *own) for start, *own in rows])
    options = {"step": STEP, "parameter_columns": [*parameters], "overwrite": True} | options
    return vp.import_dataset({"states": states} | parameters, "runs.h5", **options)


def trained(dataset, name="sgf"):
    arguments = {"width": 8, "depth": 2} if name == "resnet" else {"degree": 4}
    model = vp.models.build(dataset.family.extended, name, arguments)
    options = {"optimizer": "levenberg-marquardt", "epochs": 60, "compiled": False}
    vp.train(model, dataset, **(options if name == "resnet" else {"optimizer": "linear"}))
    return model


def compare(*arguments, **options):
    return vp.compare(*arguments, **options, compiled=False)


@pytest.mark.parametrize(
    ("components", "masses", "structure", "model"),
    [("qp", MASS, "symplectic", "sgf"), ("uv", None, "volume", "vpgf"), ("uv", MASS, "none", None)],
)
def test_models_of_unseen_parameters(run, components, masses, structure, model):
    dataset = imported(masses=masses, structure=structure, components=[*components])
    # the nominal values are those of the first test trajectory
    own = dict(zip(dataset.varied, dataset.conditions("test", 0).tolist(), strict=True))
    assert dataset.system.parameters == own
    family = trained(dataset, model or "resnet")
    report = compare(family, dataset=dataset)
    np.testing.assert_array_equal(report.reference, dataset.states("test", slice(1)))
    assert report.system.parameters == own
    unseen = {"k": 1.23} | ({} if masses is None else {"m": 1.05})
    member = family.at(**unseen)
    found = compare(member, initial=[[0.5, -0.3]], steps=20).runs[member.name].states[0]
    expected = swing((0.5, -0.3), STEP * NUMBERS, **unseen)
    assert np.abs(found - expected).max() < (2e-3 if model else 0.1)
    vp.models.save(member, "member.safetensors")
    assert vp.models.load("member.safetensors").step == STEP


def test_a_family_with_equations_runs_beside_classical_methods(run):
    dataset = imported(system=vp.load_system("harmonic-oscillator"))
    family = trained(dataset)
    stiff = vp.load_system("harmonic-oscillator", k=1.4)
    report = compare(family, "rk4", system=stiff, initial=[[1.0, 0.0]], steps=20)
    assert report.system.parameters["k"] == 1.4
    assert report.summary("rk4").error < 1e-5 and report.summary("sgf").error < 1e-2
    nominal = compare(family, "rk4", dataset=dataset, reference="dataset")
    assert nominal.system.parameters["k"] == dataset.conditions("test")[0, 0]
    assert nominal.summary("rk4").error < 1e-5


def test_trajectories_with_equal_parameters_are_compared_together(run):
    dataset = imported(np.repeat([0.5, 1.0, 1.5], 8), structure="symplectic")
    family, values = trained(dataset), dataset.conditions("test")[:, 0]
    for k in np.unique(values):
        report = compare(family.at(k=k), dataset=dataset)
        np.testing.assert_array_equal(report.reference, dataset.states("test")[values == k])
    with pytest.raises(InputError, match=r"no test trajectory of .* has k = 0.75; .*--initial"):
        compare(family.at(k=0.75), dataset=dataset)


def test_a_system_that_is_given_declares_what_varies(run):
    text = 'measured = true\nsymplectic = true\nstate = ["q", "p"]\n'
    with pytest.raises(InputError, match="spring has no parameter 'k'"):
        imported(system=vp.System(text, "spring"))
    dataset = imported(system=vp.System(f"{text}[parameters]\nk = 1.0\n", "spring"))
    report = compare(trained(dataset), dataset=dataset)
    assert report.system.parameters["k"] == dataset.conditions("test")[0, 0]


@pytest.mark.parametrize("varied", [False, True])
def test_the_whole_way_through_the_commands(run, done, varied):
    """Of trajectories with equal steps, or each with its own."""
    steps = RANDOM.uniform(0.05, 0.2, RUNS) if varied else np.full(RUNS, STEP)
    rows = zip(START, STIFFNESS, steps, strict=True)
    states = np.stack([swing(start, step * NUMBERS, k) for start, k, step in rows])
    table = table_of(states, steps[:, None] * NUMBERS, ("q", "p"), k=STIFFNESS)
    table.to_csv("runs.csv", index=False)
    done(importing, "runs.csv", "--parameter-columns", "k", "--structure", "symplectic")
    assert list(vp.open_dataset("runs.h5").varied) == ["step", "k"][1 - varied :]
    model = "runs-sgf.safetensors"
    model = "runs-sgf.safetensors"
    done(train, "runs.h5", "--model", "sgf", "--set", "degree=4", "--optimizer", "linear")
    named, start = ["-p", "k=1.3"], ["--initial", "1,0", "--steps", "20"]
    step = ["--step", "0.12"] if varied else []
    done(rollout, model, *step, *named, *start, "-o", "unseen.h5")
    found = open_rollout("unseen.h5").runs["runs-sgf"].states[0]
    expected = swing((1.0, 0.0), (0.12 if varied else STEP) * NUMBERS, 1.3)
    assert np.abs(found - expected).max() < (1e-2 if varied else 2e-3)
    done(export, model, *named, *(["-p", "step=0.12"] if varied else []), "-o", "step.c")
    for options, message in (
        ([*step, *named], f"no test trajectory of runs.h5 has {'step = 0.12, ' * varied}k = 1.3"),
        ([*step, "-p", "mass=1.3"], "mass is no parameter of this family"),
        ([*step, *named, *start, "--against", "rk4"], "rk4 needs the equations"),
        *([(named, "takes any step from")] if varied else []),
    ):
        assert refused(run(rollout, model, *options, "-o", "b.h5"), message)
