"""The best map of some data: kinds in turn, their errors, signals, and the doors of data."""

import signal
from dataclasses import dataclass
from typing import ClassVar

import h5py
import numpy as np
import pandas
import pytest
import torch
from click.testing import CliRunner

import vpintegrator as vp
from tests.training.conftest import weights
from vpintegrator.cli.train import main
from vpintegrator.training import GeneratingFunctions, Kind, TrainingOptions, search

PLAIN = TrainingOptions(compiled=False, initial_scheme="none")
COUPLINGS = [search("vpff", {"degree": 2}, training=PLAIN)]


def turned(z):
    """Rotate states (..., 2) by angles that depend on the radius."""
    angle = 0.5 + 0.2 * (z**2).sum(-1)
    c, s = np.cos(angle), np.sin(angle)
    return np.stack([c * z[..., 0] + s * z[..., 1], c * z[..., 1] - s * z[..., 0]], -1)


def orbits(count=40, times=6):
    """Return states (trajectory, time, 2) of that map."""
    states = [np.random.default_rng(0).uniform(-1, 1, (count, 2))]
    for _ in range(times - 1):
        states.append(turned(states[-1]))
    return np.stack(states, 1)


@pytest.mark.parametrize("signalled", [False, True])
def test_an_interrupt_ends_the_fit_with_the_best_model(body, signalled):
    """Ctrl-C, or an exception of the progress of one's own."""
    errors = []

    def interrupt(fit):
        errors.append(fit.error)
        if len(errors) == 2:
            if not signalled:
                raise KeyboardInterrupt
            signal.raise_signal(signal.SIGINT)

    result = vp.fit(body, COUPLINGS, epochs=20, progress=interrupt)
    assert result.stopped_by == "interrupt"
    assert [fit.error for fit in result.tried] == errors and len(errors) == 2
    assert result.error == min(errors)
    assert result.model.record.history and "interrupted" in str(result)


def test_an_interrupt_before_any_model_is_one(body, monkeypatch):
    def interrupt(self, data):
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(GeneratingFunctions, "admits", interrupt)
    with pytest.raises(KeyboardInterrupt):
        vp.fit(body, [search("vpgf")])


def test_a_model_is_kept_whenever_a_signal_comes_after_it(body, monkeypatch):
    """Here while it is tested."""

    def interrupt(self, model):
        signal.raise_signal(signal.SIGINT)
        return 0.5, 0.1

    data = vp.training.training_data.TrainingData
    monkeypatch.setattr(data, "test_error", interrupt)
    with pytest.warns(UserWarning, match="far above the validation error"):
        result = vp.fit(body, [search("vpgf", {"degree": 4})])
    assert (result.stopped_by, result.history.test_error) == ("interrupt", 0.5)


def test_a_target_ends_the_fit_with_the_first_model_that_reaches_it(body):
    result = vp.fit(body, [search("vpgf"), *COUPLINGS], target=1e-4)
    assert result.error <= 1e-4 < min(fit.error for fit in result.tried[:-1])
    assert [*result.kinds] == ["generating functions"]


def test_all_doors_lead_to_the_same_model(tmp_path):
    states, kinds = orbits(), [search("sgf", {"degree": 6})]
    data = vp.import_dataset(states, tmp_path / "orbits.h5", step=0.5)
    found = [vp.fit(door, kinds) for door in (data, data.path, str(data.path))]
    found.append(vp.fit(states, kinds, step=0.5))
    assert len({fit.error for fit in found}) == 1 and found[0].error < 1e-3
    assert all(torch.equal(weights(fit.model), weights(found[0].model)) for fit in found)
    assert found[-1].model.step == 0.5
    with pytest.raises(vp.InputError, match="step"):
        vp.fit(data, kinds, step=0.5)


def frames(states):
    """Return a table for each run, whose columns are not in the same order in all of them."""
    tables = [pandas.DataFrame(run, columns=["q", "p"]) for run in states]
    return [table[["p", "q"]] if k % 2 and k else table for k, table in enumerate(tables)]


def files(states, folder):
    """Return paths of files that are no datasets."""
    np.save(folder / "a.npy", states)
    with h5py.File(folder / "other.h5", "w") as file:
        file["lab/states"] = states
    rows = pandas.DataFrame(states.reshape(-1, 2), columns=["q", "p"])
    runs = np.repeat(np.arange(len(states)), states.shape[1])
    rows.assign(run=runs).to_csv(folder / "a.txt", sep=" ", index=False)
    return [folder / "a.npy", str(folder / "other.h5"), folder / "a.txt"]


def test_states_of_every_kind_are_a_door(tmp_path):
    states, kinds = orbits(), [search("sgf", {"degree": 6})]
    tensor = torch.tensor(states, requires_grad=True)
    masked = np.ma.array(np.concatenate([states, np.full((40, 3, 2), 999.0)], axis=1))
    masked[:, 6:] = np.ma.masked
    doors = [
        tensor,
        [*states],
        [*tensor],
        states.tolist(),
        masked,
        [*masked],
        {"x": tensor, "dt": torch.tensor(0.5)},
        frames(states),
        pandas.concat(frames(states), keys=range(40), names=["run", None]).reset_index("run"),
        *files(states, tmp_path),
    ]
    errors = [vp.fit(door, kinds, step=0.5, structure="symplectic").error for door in doors]
    np.testing.assert_allclose(errors, errors[0], rtol=1e-9)
    assert errors[0] < 1e-3


@pytest.mark.parametrize("kind", ["arrays", "tensors", "lists", "frames", "masked"])
def test_runs_may_differ_in_length(kind):
    runs = [run[: 3 + k % 4] for k, run in enumerate(orbits())]
    expected = vp.fit(padded(runs), [search("sgf", {"degree": 6})], step=0.5).error
    door = {
        "arrays": lambda: tuple(runs),
        "tensors": lambda: [torch.from_numpy(run) for run in runs],
        "lists": lambda: [run.tolist() for run in runs],
        "frames": lambda: [pandas.DataFrame(run, columns=["u", "v"]) for run in runs],
        "masked": lambda: np.ma.masked_equal(np.nan_to_num(padded(runs), nan=-7), -7),
    }[kind]()
    result = vp.fit(door, [search("sgf", {"degree": 6})], step=0.5)
    assert result.error == expected < 1e-3


def padded(runs):
    """Return runs as one array, NaN behind their ends."""
    result = np.full((len(runs), max(map(len, runs)), 2), np.nan)
    for row, run in zip(result, runs, strict=True):
        row[: len(run)] = run
    return result


def test_pairs_may_be_tensors_tables_or_masked():
    before = orbits(60, 2)[:, 0]
    after, kinds = turned(before), [search("sgf", {"degree": 4})]
    expected = vp.fit((before[3:], after[3:]), kinds).error
    lost = np.ma.array(after, mask=np.arange(60)[:, None] < [3, 0])
    lost.data[:3] = 999.0
    gone = np.where(np.arange(60)[:, None] < 3, np.nan, after)
    for pair in (
        (before, lost),
        (torch.from_numpy(before), torch.from_numpy(gone)),
        (pandas.DataFrame(before), pandas.DataFrame(gone)),
    ):
        assert vp.fit(pair, kinds).error == expected < 1e-3


@pytest.mark.parametrize(
    ("door", "message"),
    [
        (
            [np.zeros((4, 2)), np.zeros((5, 3))],
            r"runs of shape \(time, dim\).* found \(4, 2\), \(5",
        ),
        ([np.zeros(4), np.zeros(5)], r"found \(4,\), \(5,\)"),
        ([pandas.DataFrame({"q": [1.0]}), pandas.DataFrame({"r": [1.0]})], "table 1 has the col"),
        (torch.zeros(6, 5, 2, dtype=torch.complex128), "real numbers"),
        (torch.zeros(6, 5, 2), "does not say the time between two states"),
        (7.5, "expected one array of states"),
        ([None, "a"], "expected one array of states"),
        ([], "expected one array of states"),
        (object(), "expected one array of states"),
    ],
)
def test_what_is_no_door_is_refused_in_a_sentence(door, message):
    with pytest.raises(vp.InputError, match=message) as error:
        vp.fit(door)
    assert "\n" not in str(error.value)


def test_pairs_and_trajectories_of_two_states_give_the_same_model():
    states, kinds = orbits(60, 2), [search("sgf", {"degree": 4})]
    pairs = vp.fit((states[:, 0], states[:, 1]), kinds, step=1.0)
    array = vp.fit(states, kinds, step=1.0)
    assert pairs.error == array.error < 1e-3
    assert torch.equal(weights(pairs.model), weights(array.model))
    assert not array.model.origin.dataset  # its file is deleted
    assert pairs.judged_by == "left out"


class Turn(torch.nn.Module):
    """A rotation by an angle that depends on the radius."""

    volume_preserving = True

    def __init__(self):
        super().__init__()
        self.angle = torch.nn.Parameter(torch.zeros(2, dtype=torch.float64))

    def forward(self, z):
        angle = self.angle[0] + self.angle[1] * z.square().sum(-1)
        c, s = angle.cos(), angle.sin()
        return torch.stack([c * z[..., 0] + s * z[..., 1], c * z[..., 1] - s * z[..., 0]], -1)


@dataclass(frozen=True)
class Turns(Kind):
    """Such rotations."""

    name: ClassVar[str] = "turns"

    def admits(self, data):
        return None if data.dataset.dim == 2 else "turns are maps of the plane"

    def search(self, data, train, fits):
        options = TrainingOptions(normalise=False, compiled=False)
        train(vp.wrap(Turn(), 2), "2 parameters", epochs=20, options=options)


def test_a_kind_of_ones_own_is_tried_and_can_win():
    result = vp.fit(orbits(), [search("vpgf", {"degree": 6}), Turns()], step=1.0)
    assert result.kind == "turns" and result.error < 1e-14
    assert [*result.kinds] == ["generating functions", "turns"]
    torch.testing.assert_close(weights(result.model), torch.tensor([0.5, 0.2]).double())
    assert "turns" in str(result) and "2 parameters" in str(result)


def test_kinds_that_do_not_admit_the_data_are_left_out_with_a_reason(body):
    result = vp.fit(body, [Turns(), search("vpgf", {"degree": 4})])
    assert [*result.kinds] == ["generating functions"]
    with pytest.raises(vp.InputError, match=r"^turns are maps of the plane$"):
        vp.fit(body, [Turns()])
    refusals = "turns: turns are maps of the plane; splittings: stages = 0"
    with pytest.raises(vp.InputError, match=refusals):
        vp.fit(body, [Turns(), search("split", {"stages": 0})], equations=True)


@pytest.mark.parametrize(
    ("name", "value"),
    [("seconds", -1), ("target", 0.0), ("epochs", 0.5), ("kinds", []), ("kinds", "vpff")],
)
def test_mistakes(body, name, value):
    with pytest.raises(vp.InputError, match=name):
        vp.fit(body, **{name: value})


def test_a_fit_in_python_and_as_a_command_is_the_same_to_the_last_bit(body, tmp_path):
    path = tmp_path / "model.safetensors"
    options = "--epochs 4 --model vpff --search --set degree=2 --seed 3"
    done = CliRunner().invoke(main, [str(body.path), *options.split(), "-o", str(path)])
    assert done.exit_code == 0, done.output
    result = vp.fit(body, [search("vpff", {"degree": 2})], epochs=4, seed=3)
    assert torch.equal(weights(vp.load(path)), weights(result.model))
    assert f"validation {result.error:.2e}" in done.output


def damped(count=60, times=6):
    """States (trajectory, time, 2) of a map that loses area."""
    return orbits(count, times) * 0.97 ** np.arange(times)[:, None]


@pytest.mark.parametrize("structure", ["symplectic", vp.dynamics.Structure("symplectic")])
def test_a_structure_is_a_condition(structure):
    """Also where a map without it errs less."""
    free = vp.fit(damped(), step=1.0, structure="none", epochs=20)
    assert not free.model.structure.is_symplectic
    result = vp.fit(damped(), step=1.0, structure=structure, epochs=20)
    assert result.model.structure.is_symplectic and result.error > free.error
    with pytest.raises(vp.InputError, match="no map that keeps the form 'symplectic'"):
        kinds = [vp.training.PolynomialRegression()]
        vp.fit(damped(), kinds, step=1.0, structure=structure)


def test_a_structure_is_a_condition_of_datasets_too(body):
    assert vp.fit(body, structure="volume").model.structure.keeps_volume
    with pytest.raises(vp.InputError, match="no map that keeps the form 'symplectic'"):
        vp.fit(body, [search("vpgf", {"degree": 2})], structure="symplectic")
    with pytest.raises(vp.InputError, match="structure says the form alone"):
        vp.fit(body, structure=vp.dynamics.Structure("volume", periods=((0, 1.0),)))


def test_a_linear_map_keeps_the_form_where_its_matrix_does():
    turn = np.array([[0.8, -0.6], [0.6, 0.8]])
    before = np.random.default_rng(0).normal(size=(60, 2))
    kinds = [search("linear")]
    assert vp.fit((before, before @ turn), kinds, structure="volume").error < 1e-13
    with pytest.raises(vp.InputError, match="no map that keeps"):
        vp.fit((before, before @ turn * 0.99), kinds, structure="volume")
