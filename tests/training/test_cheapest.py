"""The cheapest model below an error: find_model(fastest=...) and vp-train --fastest."""

import json
import math

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from vpintegrator.training.search import cheapest, proposals
from vpintegrator.training.search.cheapest import KEY, Cheapest

import vpintegrator as vp
from vpintegrator.cli import gen as generate_command
from vpintegrator.cli.train import main
from vpintegrator.training import Budget, find_model
from vpintegrator.training.history import History
from vpintegrator.training.performance import Performance

COSTS = st.one_of(st.floats(1e-9, 1e-3), st.just(math.nan))
ROWS = st.lists(st.builds(Performance, st.just("map"), st.floats(1e-16, math.inf), COSTS))


@pytest.fixture(scope="module")
def pendulum(tmp_path_factory):
    path = tmp_path_factory.mktemp("cheapest") / "pendulum.h5"
    return vp.generate("pendulum", path, count=40, steps=10)


@given(ROWS.filter(bool), st.floats(1e-15, 1.0))
def test_none_below_the_error_is_cheaper_than_what_is_taken(rows, limit):
    found = Cheapest(limit, rows)
    taken, below = rows[found.place], [row for row in rows if row.error <= limit]
    if below:
        assert taken in below
        assert not any(row.cost < taken.cost for row in below)
        assert math.isfinite(taken.cost) or not any(math.isfinite(row.cost) for row in below)
    else:
        assert taken.error == min(row.error for row in rows)
    again = Cheapest.from_text(found.text, "the file")
    assert again.place == found.place and again.sentence == found.sentence


@pytest.fixture
def search(monkeypatch, pendulum):
    """Find the fastest model with stand-ins for couplings and for what a step costs."""

    def run(limit, error, cost=1e-9, ended="", seconds=60.0):
        def find_couplings(make, data, options):
            run.budget = options.budget
            model = vp.models.build(pendulum.system, "spff", functions="polynomial", degree=3)
            history = History("levenberg-marquardt", 0, 0)
            return vp.training.SearchResult(model, error, history, ["couplings"], 0.1, 10, ended)

        def cost_of_model(model, windows):
            return cost if model.name == "spff" else 1e-7 * model.arguments["degree"]

        monkeypatch.setattr(proposals, "find_couplings", find_couplings)
        monkeypatch.setattr(cheapest, "cost_of_model", cost_of_model)
        return find_model(
            lambda arguments: vp.models.build(pendulum.system, "sgf", **arguments),
            lambda arguments: None,
            pendulum,
            Budget(seconds=seconds),
            fastest=limit,
        )

    return run


def test_couplings_are_taken_only_where_they_are_below_and_cheaper(search):
    found = search(1e-6, error=9e-7)
    assert found.model.name == "spff" and found.complete and not found.ended
    assert search.budget.target == 1e-6 and search.budget.epochs is None
    assert [row.name.split(",")[0] for row in found.cheapest.candidates] == ["sgf", "sgf", "spff"]
    assert found.tried[-1] == found.cheapest.sentence
    assert search(1e-6, error=2e-6).model.name == "sgf"
    dear = search(1e-6, error=1e-12, cost=1.0)
    assert dear.model.name == "sgf" and dear.model.arguments["degree"] == 2  # of exact terms


def test_generating_functions_are_the_smallest_below_the_error(search, pendulum):
    found = search(1e-6, error=1.0)
    polynomials, exact, _ = found.cheapest.candidates
    assert polynomials.error <= 1e-6 and exact.error <= 1e-6
    degree = int(polynomials.name.split()[-1])
    one_lower = vp.training.find_generating_function(
        lambda arguments: vp.models.build(pendulum.system, "sgf", **arguments),
        pendulum,
        sizes={"degree": degree - 2},
    )
    assert one_lower.error > 1e-6


def test_where_none_is_below_couplings_are_trained_on(search):
    found = search(1e-30, error=1e-5)
    assert found.model.name == "spff" and not found.complete
    assert found.rival.model.name == "sgf" and found.rival.error < 1e-9
    assert "least error is kept, sgf" in found.cheapest.sentence
    assert found.cheapest.trained(1e-31).sentence.startswith("The cheapest map below 1e-30: 1 ns")
    assert any("maps in a row" in row.name for row in found.cheapest.candidates)


# the command


@pytest.mark.thorough
def test_the_command_says_and_keeps_the_candidates(pendulum, tmp_path):
    path = tmp_path / "model.safetensors"
    arguments = [pendulum.path, "-o", path, "--fastest", "1e-3", "--no-verdict", "--json"]
    result = CliRunner().invoke(main, [str(a) for a in arguments])
    assert result.exit_code == 0, result.output
    model = vp.load(path)
    kept = Cheapest.from_text(model.metadata[KEY], "the model")
    assert json.loads(result.stdout)["fastest"] == json.loads(kept.text)
    taken = kept.candidates[kept.place]
    assert taken.error <= kept.limit == 1e-3 and taken.name.startswith(model.name)
    assert kept.sentence in result.stderr and "candidates" in result.stderr
    shown = CliRunner().invoke(generate_command.main, ["--inspect", str(path)])
    assert " ".join(kept.sentence.split()) in " ".join(shown.output.split())
    on = ["--start", path, "-o", tmp_path / "on.safetensors", "--seconds", "0.5", "--no-verdict"]
    again = CliRunner().invoke(main, [str(a) for a in [pendulum.path, *on]])
    assert again.exit_code == 0, again.output
    assert KEY not in vp.load(tmp_path / "on.safetensors").metadata


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["0"], "--fastest = 0.0 must be positive"),
        (["nan"], "--fastest = nan must be positive"),
        (["small"], "'small' is not a valid float"),
        (["1e-6", "--model", "sgf"], "leave out --model"),
        (["1e-6", "--target", "1e-3", "--epochs", "5"], "leave out --target, --epochs"),
        (["1e-6", "--degree", "3", "--functions", "polynomial"], "no models to choose from"),
        (["1e-6", "--seconds", "1"], "train for 4 seconds or more"),
    ],
)
def test_mistakes(pendulum, tmp_path, options, words):
    arguments = [str(pendulum.path), "-o", str(tmp_path / "m.safetensors"), "--fastest", *options]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert words in " ".join(result.output.split())
