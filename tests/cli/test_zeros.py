"""A zero is a number that was given, not an option left out; and a wrong number is a sentence."""

import h5py
import pytest

import vpintegrator as vp
from tests.cli.conftest import refused
from vpintegrator.cli import gen, rollout, train

SMALL = ("--count", "5", "--steps", "5")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("zeros") / "data.h5"
    vp.generate("pendulum", path, count=5, steps=5)
    return path


def test_seed_0_is_not_seed_1(run):
    for seed in (0, 1):
        result = run(gen.main, "pendulum", *SMALL, "--seed", seed, "-o", f"{seed}.h5")
        assert result.exit_code == 0, result.output
    first, second = vp.open_dataset("0.h5"), vp.open_dataset("1.h5")
    assert (first.seed, second.seed) == (0, 1)
    assert first.fingerprint != second.fingerprint


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--step", "0"], "step: expected a positive number, found 0.0"),
        (["--rtol", "0"], "rtol: expected a positive number, found 0.0"),
        (["-p", "I1=0"], "division by zero"),
    ],
)
def test_generation(run, options, message):
    assert refused(run(gen.main, "rigid-body", *SMALL, *options), message)


def test_a_step_in_a_file(run, tmp_path):
    (tmp_path / "a.toml").write_text('system = "pendulum"\nstep = -0.1\n')
    assert refused(run(gen.main, "a.toml"), "step: expected a positive number, found -0.1")


def test_a_negative_step_in_a_dataset(run, tmp_path, data):
    (tmp_path / "a.h5").write_bytes(data.read_bytes())
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        file.attrs["step"] = -0.2
    for result in (run(train.main, "a.h5"), run(gen.main, "--inspect", "a.h5")):
        assert refused(result, "'step' must be a positive number, not -0.2")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--learning-rate", "0", "--optimizer", "adam"], "learning_rate = 0.0 must be positive"),
        (["--batch", "0"], "batch = 0 must be a whole number, at least 1"),
        (["--epochs", "0"], "epochs = 0 must be a whole number, at least 1"),
        (["--seconds", "0"], "seconds = 0.0 must be positive"),
        (["--noise", "-1"], "noise = -1.0 must be 0 or more"),
        (["--window", "0"], "window = 0 must be a whole number, at least 2"),
    ],
)
def test_training(run, tmp_path, data, options, message):
    result = run(train.main, data, "--epochs", "1", *options, "-o", "m.safetensors")
    assert refused(result, message)
    assert not list(tmp_path.glob("m.safetensors*"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--step", "0"], "step = 0.0 must be positive"),
        (["--time", "0"], "time = 0.0 must be positive"),
        (["--initial", ""], "expected numbers as in"),
    ],
)
def test_rollouts(run, options, message):
    assert refused(run(rollout.main, "--system", "pendulum", *options), message)
