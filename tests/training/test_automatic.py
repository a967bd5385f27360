"""The default of vp-train: a generating function, or couplings, and what an interrupt leaves."""

import math
import time

import pytest
import torch
from click.testing import CliRunner

import vpintegrator as vp
from vpintegrator.cli.train import main
from vpintegrator.errors import InputError
from vpintegrator.training import Budget, find_generating_function, find_model
from vpintegrator.training.history import History
from vpintegrator.training.search import models, proposals
from vpintegrator.training.search.options import SearchOptions
from vpintegrator.training.training_data import TrainingData


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Call vp-train in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    return lambda *arguments: CliRunner().invoke(main, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def pendulum(tmp_path_factory):
    path = tmp_path_factory.mktemp("automatic") / "pendulum.h5"
    return vp.generate("pendulum", path, count=40, steps=10)


class Maker:
    """Makes untrained models of a system, and remembers what was asked for."""

    def __init__(self, dataset, name, most=99, **fixed):
        self.dataset, self.name, self.most, self.fixed, self.asked = dataset, name, most, fixed, []

    def __call__(self, arguments):
        self.asked.append(arguments)
        if arguments.get("degree", 0) > self.most or (self.most < 9 and "functions" in arguments):
            raise InputError("too many terms")
        return vp.models.build(self.dataset.system, self.name, **(self.fixed | arguments))


def solved(dataset, most=99):
    return Maker(dataset, "sgf", most)


def couplings(dataset, error, ended="", exception=None):
    """A stand-in for the search, which ends with couplings of an error."""

    def find_couplings(make, data, options):
        find_couplings.budget, find_couplings.sizes = options.budget, options.sizes
        if exception is not None:
            raise exception
        model = vp.models.build(dataset.system, "spff", functions="polynomial", degree=3, depth=1)
        stopped_by = "interrupt" if ended == "interrupt" else "epochs"
        history = History("levenberg-marquardt", 0, 0)
        history.best_validation_error, history.stopped_by = error, stopped_by
        model.metadata["training"] = "{}"
        return vp.training.SearchResult(model, error, history, ["couplings"], 0.1, 10, ended)

    return find_couplings


@pytest.fixture
def search(monkeypatch, pendulum):
    """Find a model with a stand-in for the search: the result, what was told, the stand-in."""

    def run(error=1.0, most=99, budget=None, **options):
        stand_in, lines = couplings(pendulum, error, **options), []
        monkeypatch.setattr(proposals, "find_couplings", stand_in)
        found = find_model(
            solved(pendulum, most),
            Maker(pendulum, "spff"),
            pendulum,
            budget or Budget(seconds=60),
            sizes={"depth": 2},
            tell=lines.append,
        )
        return found, lines, stand_in

    return run


def test_the_generating_function_is_taken_where_couplings_are_worse(search):
    found, lines, stand_in = search(error=1e-9)
    assert found.model.name == "sgf" and found.complete and found.rival is None
    assert found.error < 1e-12
    assert 0 < stand_in.budget.seconds < 60 and stand_in.budget.epochs == proposals.EPOCHS
    assert stand_in.sizes == {"depth": 2}
    assert lines[-1].startswith("the generating function is taken: couplings err by 1.0e-09, ")
    assert found.tried[-2:] == ["couplings", lines[-1]]
    assert found.tried[0].startswith("degree 2: ")


def test_couplings_are_taken_where_their_error_is_that_of_rounding(search):
    found, lines, _ = search(error=9e-15)
    assert found.model.name == "spff" and found.complete
    assert lines[-1].startswith(
        "couplings are taken, whose step is explicit: couplings err by 9.0e-15"
    )


@pytest.mark.parametrize(("times", "name"), [(9.9, "spff"), (10.1, "sgf")])
def test_couplings_are_taken_as_cheaper_within_a_factor_of_ten(search, pendulum, times, name):
    error = find_generating_function(solved(pendulum, 6), pendulum).error
    assert 1e-14 < error < 1e-8
    found, lines, _ = search(error=times * error, most=6)
    assert found.model.name == name
    assert ("explicit and costs less" in lines[-1]) == (name == "spff")


def test_no_generating_function(search):
    found, lines, stand_in = search(most=1)
    assert found.model.name == "spff" and not found.complete
    assert stand_in.budget.seconds == pytest.approx(60, abs=1)
    assert lines == ["no generating functions of polynomials: too many terms"]


def test_no_couplings(search):
    found, lines, _ = search(exception=InputError("no couplings of this kind"))
    assert found.model.name == "sgf" and found.complete
    assert lines[-1] == "no couplings: no couplings of this kind"


def test_couplings_get_the_rest_of_the_budget_where_neither_is_good(search):
    found, lines, stand_in = search(error=1e-5, most=2)
    assert found.model.name == "spff" and not found.complete
    assert found.rival.model.name == "sgf" and found.rival.error > proposals.GOOD
    assert 50 < stand_in.budget.seconds < 60 and stand_in.budget.epochs is None
    assert lines[-1].startswith("couplings are trained for the rest of the budget")


def test_a_target_that_is_reached_ends_it(search):
    found, lines, stand_in = search(budget=Budget(seconds=60, target=1e-3))
    assert found.model.name == "sgf" and found.ended == "target" and found.error < 1e-2
    assert not hasattr(stand_in, "budget")
    assert len(lines) == len(found.tried)


# interrupts


@pytest.mark.parametrize(("error", "name"), [(0.5, "sgf"), (1e-7, "spff")])
def test_an_interrupt_among_couplings_keeps_the_better_model(search, error, name):
    found, _, _ = search(error=error, most=2, ended="interrupt")
    assert found.model.name == name and found.complete and found.rival is None
    assert found.ended == found.history.stopped_by == "interrupt"


class Further(proposals.Proposal):
    """Further functions, which end with an exception."""

    words = "further functions"

    def __init__(self, exception):
        self.exception, self.calls = exception, 0

    def is_possible(self, task):
        return True

    def find(self, task, found):
        self.calls += 1
        raise self.exception


def search_with(further, dataset, **makers):
    """Search among polynomials, and twice the further functions."""
    lines = []
    options = SearchOptions(Budget(seconds=60), tell=lines.append)
    task = proposals.SearchTask(TrainingData(dataset), options, solved(dataset), **makers)
    return models.search(task, (proposals.PROPOSALS[1], further, further)), lines


def test_an_interrupt_among_further_functions_keeps_the_first_polynomials(pendulum):
    """And a mistake among these leaves the polynomials as they are."""
    interrupted = Further(KeyboardInterrupt())
    found, _ = search_with(interrupted, pendulum)
    assert found.model.name == "sgf" and found.error < 1e-12
    assert found.ended == "interrupt" and interrupted.calls == 1
    refused = Further(InputError("not finite"))
    found, lines = search_with(refused, pendulum)
    assert not found.ended and refused.calls == 2
    assert "no further functions: not finite" in lines


# the command


def test_the_file_is_named_after_the_model_that_is_taken(run, tmp_path, pendulum, monkeypatch):
    monkeypatch.setattr(proposals, "find_couplings", couplings(pendulum, 1e-9))
    result = run(pendulum.path, "-v")
    assert result.exit_code == 0, result.output
    assert [path.name for path in tmp_path.iterdir()] == ["pendulum-sgf.safetensors"]
    assert vp.load(tmp_path / "pendulum-sgf.safetensors").name == "sgf"
    first = "generating functions and splittings are tried first; beside them spff: functions"
    assert first in result.output
    assert "couplings 1.0e-09; the generating function is taken" in result.output
    again = run(pendulum.path)
    assert again.exit_code == 2
    plain = run(pendulum.path, "--overwrite", "--no-verdict").output.splitlines()
    assert len(plain) <= 8 and "generating functions of polynomials" in plain[1], plain
    assert "pendulum-sgf.safetensors" in again.output


@pytest.mark.parametrize(("error", "name"), [(0.5, "sgf"), (1e-20, "spff")])
@pytest.mark.parametrize("interrupted", [False, True])
def test_the_better_of_two_models_is_written_alone(
    run, tmp_path, pendulum, monkeypatch, error, name, interrupted
):
    """Couplings, which are written while they are trained, do not stay beside what is taken."""

    def train(model, data, *, output, **options):
        if interrupted:
            raise KeyboardInterrupt
        vp.save(model, output)
        history = History("levenberg-marquardt", 0, 0)
        history.best_validation_error, history.stopped_by = error, "seconds"
        history.add(0.1, error, error)
        return history

    monkeypatch.setattr(proposals, "find_couplings", couplings(pendulum, error))
    monkeypatch.setattr(models, "GOOD", 0.0)
    monkeypatch.setattr(proposals, "GOOD", 0.0)
    monkeypatch.setattr(vp.training, "train", train)
    result = run(pendulum.path)
    assert result.exit_code == 0, result.output
    assert ("the generating function is taken: it errs by" in result.output) == (name == "sgf")
    assert [path.name for path in tmp_path.iterdir()] == [f"pendulum-{name}.safetensors"]


def test_exact_terms_and_maps_in_a_row_where_polynomials_are_poor(pendulum):
    lines = []

    def make(arguments):  # polynomials of low degree alone
        if arguments.get("degree", 2) > 2:
            raise InputError("too many terms")
        return vp.models.build(pendulum.system, "sgf", **arguments)

    found = models.best_generating_function(make, pendulum, tell=lines.append)
    assert "exact terms of the Hamiltonian:" in lines
    assert found.error <= 1e-10 and found.model.arguments["repeats"] in (2, 3, 4)
    assert f"{found.model.arguments['repeats']} maps of exact terms in a row:" in lines
    last = models.best_generating_function(make, pendulum, Budget(target=1e-6))
    assert "hamiltonian" in last.model.arguments and "repeats" not in last.model.arguments


def test_no_attempt_begins_after_half_of_the_budget(pendulum, monkeypatch):
    lines, seconds = [], [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: seconds[0])

    def slow(arguments):
        seconds[0] += 0.3
        return vp.models.build(pendulum.system, "sgf", **(arguments | {"degree": 2}))

    found = models.best_generating_function(slow, pendulum, Budget(seconds=4.0), tell=lines.append)
    assert 2 < seconds[0] < 4
    assert not any("exact terms" in line for line in lines)
    assert found.error > 1e-10


def test_a_map_that_is_nan_on_some_states_errs_by_infinity(pendulum):
    def make(arguments):
        model = vp.models.build(pendulum.system, "sgf", **arguments)
        model.core.forward = lambda z: torch.full_like(z, torch.nan)
        return model

    assert find_generating_function(make, pendulum, sizes={"degree": 2}).error == math.inf


@pytest.mark.thorough
def test_two_equal_searches_give_the_same_model_whatever_the_machine_does(pendulum, monkeypatch):
    """The second one is told that each second epoch takes a minute."""
    monkeypatch.setattr(proposals, "EPOCHS", 40)
    now, later = time.perf_counter, [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now() + later[0])

    def slow(history):
        later[0] += 30.0

    makers = solved(pendulum, 6), Maker(pendulum, "spff")
    options = {"composed": Maker(pendulum, "split"), "compiled": False}
    first, second = (
        find_model(*makers, pendulum, Budget(seconds=1e6), progress=progress, **options)
        for progress in (None, slow)
    )
    assert later[0] > 1e3
    assert (first.model.name, first.error) == (second.model.name, second.error)
    assert first.model.arguments == second.model.arguments
    for one, other in zip(first.model.parameters(), second.model.parameters(), strict=True):
        assert torch.equal(one, other)
