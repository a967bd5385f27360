"""Families of imported trajectories: trained, rolled out, compared and exported as all others."""

import numpy as np
import pytest

import vpintegrator as vp
from tests.cli.conftest import refused
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
SOLVED = ("--model", "sgf", "--set", "degree=4", "--optimizer", "linear")


def swing(start, times, k, m=1.0):
    """States (time, 2) of q' = p/m, p' = -k q."""
    omega = np.sqrt(k / m)
    c, s = np.cos(omega * times), np.sin(omega * times)
    q, p = start
    return np.stack([q * c + p * s / (m * omega), p * c - m * omega * q * s], axis=-1)


def states_of(masses=None, step=STEP):
    masses = np.ones(RUNS) if masses is None else masses
    rows = zip(START, STIFFNESS, masses, strict=True)
    return np.stack([swing(start, step * NUMBERS, k, m) for start, k, m in rows])


def write(path, states, names, parameters):
    """Write the states as a table, an archive or HDF5."""
    if path.suffix == ".npz":
        np.savez(path, states=states, step=STEP, **parameters)
        return
    columns = [np.repeat(np.arange(RUNS), len(NUMBERS)), np.tile(STEP * NUMBERS, RUNS)]
    columns += list(states.reshape(-1, 2).T)
    columns += [np.repeat(values, len(NUMBERS)) for values in parameters.values()]
    header = ",".join(["run", "time", *names, *parameters])
    np.savetxt(path, np.stack(columns, -1), delimiter=",", header=header, comments="", fmt="%.17g")


def compare(*arguments, **options):
    return vp.compare(*arguments, **options, compiled=False)


def trained(dataset, name):
    arguments = {"width": 8, "depth": 2} if name == "resnet" else {"degree": 4}
    model = vp.models.build(dataset.family.extended, name, arguments)
    options = {"optimizer": "levenberg-marquardt", "epochs": 60, "compiled": False}
    vp.train(model, dataset, **(options if name == "resnet" else {"optimizer": "linear"}))
    return model


@pytest.mark.parametrize(
    ("ending", "names", "masses", "structure", "model"),
    [
        ("csv", ("q", "p"), None, "symplectic", "sgf"),
        ("npz", ("q", "p"), MASS, "symplectic", "sgf"),
        (None, ("u", "v"), None, "volume", "vpgf"),
        ("csv", ("u", "v"), MASS, "none", "resnet"),
    ],
)
def test_models_of_unseen_parameters(ending, names, masses, structure, model, tmp_path):
    parameters = {"k": STIFFNESS} | ({} if masses is None else {"m": masses})
    states = states_of(masses)
    options = {"parameter_columns": list(parameters), "structure": structure}
    if ending is None:
        source = {"states": states, **parameters}
        options |= {"step": STEP, "components": names}
    else:
        source = tmp_path / f"runs.{ending}"
        write(source, states, names, parameters)
    dataset = vp.import_dataset(source, tmp_path / "runs.h5", **options)
    assert list(dataset.varied) == list(parameters)
    # the nominal values are those of the first test trajectory
    own = dict(zip(parameters, dataset.conditions("test", 0).tolist(), strict=True))
    assert dataset.system.parameters == own
    family = trained(dataset, model)
    report = compare(family, dataset=dataset)
    np.testing.assert_array_equal(report.reference, dataset.states("test", slice(1)))
    assert report.system.parameters == own
    unseen = {"k": 1.23} | ({} if masses is None else {"m": 1.05})
    member = family.at(**unseen)
    report = compare(member, initial=[[0.5, -0.3]], steps=20)
    expected = swing((0.5, -0.3), STEP * NUMBERS, **unseen)
    found = report.runs[member.name].states[0]
    assert np.abs(found - expected).max() < (0.1 if model == "resnet" else 2e-3)
    vp.models.save(member, tmp_path / "member.safetensors")
    assert vp.models.load(tmp_path / "member.safetensors").metadata["step"] == repr(STEP)


def test_a_family_with_equations_runs_beside_classical_methods(tmp_path):
    source = {"states": states_of(), "k": STIFFNESS}
    oscillator = vp.load_system("harmonic-oscillator")
    dataset = vp.import_dataset(
        source, tmp_path / "runs.h5", step=STEP, system=oscillator, parameter_columns=["k"]
    )
    family = trained(dataset, "sgf")
    stiff = vp.load_system("harmonic-oscillator", k=1.4)
    report = compare(family, "rk4", system=stiff, initial=[[1.0, 0.0]], steps=20)
    assert report.system.parameters["k"] == 1.4
    assert report.summary("rk4").error < 1e-5 and report.summary("sgf").error < 1e-2
    nominal = compare(family, "rk4", dataset=dataset, reference="dataset")
    assert nominal.system.parameters["k"] == dataset.conditions("test")[0, 0]
    assert nominal.summary("rk4").error < 1e-5


def test_trajectories_with_equal_parameters_are_compared_together(tmp_path):
    lengths = np.repeat([0.5, 1.0, 1.5], 8)
    rows = zip(START, lengths, strict=True)
    states = np.stack([swing(start, STEP * NUMBERS, k) for start, k in rows])
    source = {"states": states, "k": lengths}
    dataset = vp.import_dataset(
        source, tmp_path / "a.h5", step=STEP, parameter_columns=["k"], structure="symplectic"
    )
    family = trained(dataset, "sgf")
    values = dataset.conditions("test")[:, 0]
    for k in np.unique(values):
        report = compare(family.at(k=k), dataset=dataset)
        np.testing.assert_array_equal(report.reference, dataset.states("test")[values == k])
    with pytest.raises(InputError, match=r"no test trajectory of .* has k = 0.75; .*--initial"):
        compare(family.at(k=0.75), dataset=dataset)


def test_a_system_that_is_given_declares_what_varies(tmp_path):
    source = {"states": states_of(), "k": STIFFNESS}
    text = 'measured = true\nsymplectic = true\nstate = ["q", "p"]\n'
    given = {"step": STEP, "parameter_columns": ["k"]}
    with pytest.raises(InputError, match=r"k varies, but spring .*\[parameters\]"):
        vp.import_dataset(source, tmp_path / "a.h5", system=vp.System(text, "spring"), **given)
    spring = vp.System(f"{text}[parameters]\nk = 1.0\n", "spring")
    dataset = vp.import_dataset(source, tmp_path / "a.h5", system=spring, **given)
    report = compare(trained(dataset, "sgf"), dataset=dataset)
    assert report.system.parameters["k"] == dataset.conditions("test")[0, 0]


def test_the_whole_way_through_the_commands(run, tmp_path):
    write(tmp_path / "runs.csv", states_of(), ("q", "p"), {"k": STIFFNESS})
    result = run(importing, "runs.csv", "--parameter-columns", "k")
    assert result.exit_code == 0, result.output
    result = run(train, "runs.h5", *SOLVED, "-o", "runs.safetensors")
    assert result.exit_code == 0, result.output
    result = run(rollout, "runs.safetensors", "-o", "own.h5")
    assert result.exit_code == 0, result.output
    own = open_rollout("own.h5")
    np.testing.assert_array_equal(
        own.reference, vp.open_dataset("runs.h5").states("test", slice(1))
    )
    start = ("--initial", "1,0", "--steps", "20")
    result = run(rollout, "runs.safetensors", "-p", "k=1.3", *start, "-o", "unseen.h5")
    assert result.exit_code == 0, result.output
    found = open_rollout("unseen.h5").runs["runs"].states[0]
    assert np.abs(found - swing((1.0, 0.0), STEP * NUMBERS, 1.3)).max() < 2e-3
    result = run(export, "runs.safetensors", "-p", "k=1.3", "-o", "step.c")
    assert result.exit_code == 0, result.output
    refusal = run(rollout, "runs.safetensors", "-p", "k=1.3", "-o", "b.h5")
    assert refused(refusal, "no test trajectory of runs.h5 has k = 1.3")
    refusal = run(rollout, "runs.safetensors", "-p", "mass=1.3", "-o", "b.h5")
    assert refused(refusal, "mass is no parameter of this family")
    refusal = run(rollout, "runs.safetensors", *start, "--against", "rk4", "-o", "b.h5")
    assert refused(refusal, "rk4 needs the equations")


def test_steps_that_vary_through_the_commands(run, tmp_path):
    steps = RANDOM.uniform(0.05, 0.2, RUNS)
    lines = ["run,time,q,p,k"]
    for number, (start, k, step) in enumerate(zip(START, STIFFNESS, steps, strict=True)):
        for time, (q, p) in zip(step * NUMBERS, swing(start, step * NUMBERS, k), strict=True):
            lines.append(f"{number},{time:.17g},{q:.17g},{p:.17g},{k:.17g}")
    (tmp_path / "runs.csv").write_text("\n".join(lines) + "\n")
    assert run(importing, "runs.csv", "--parameter-columns", "k").exit_code == 0
    assert list(vp.open_dataset("runs.h5").varied) == ["step", "k"]
    assert run(train, "runs.h5", *SOLVED, "-o", "runs.safetensors").exit_code == 0
    named = ("--step", "0.12", "-p", "k=1.3", "--initial", "1,0", "--steps", "20")
    result = run(rollout, "runs.safetensors", *named, "-o", "a.h5")
    assert result.exit_code == 0, result.output
    found = open_rollout("a.h5").runs["runs"].states[0]
    assert np.abs(found - swing((1.0, 0.0), 0.12 * NUMBERS, 1.3)).max() < 1e-2
    refusal = run(rollout, "runs.safetensors", "-p", "k=1.3", "-o", "b.h5")
    assert refused(refusal, "takes any step from")
    refusal = run(rollout, "runs.safetensors", "--step", "0.1", "-p", "k=1.3", "-o", "b.h5")
    assert refused(refusal, "no test trajectory of runs.h5 has step = 0.1, k = 1.3")
