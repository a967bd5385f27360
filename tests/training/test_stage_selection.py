"""Stages of a learned splitting: what is tried, and when the search ends."""

import json

import pytest

import vpintegrator as vp
from vpintegrator.errors import InputError
from vpintegrator.training import Budget, find_splitting
from vpintegrator.training.search import stages
from vpintegrator.training.training_data import TrainingData


@pytest.fixture(scope="module")
def swings(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "swings.h5"
    return vp.generate("pendulum", path, count=40, steps=10)


def maker(data, **options):
    return lambda arguments: vp.models.build(data.system, "split", **options, **arguments)


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(stages, "_EPOCHS", 30)


def test_more_stages_while_the_error_falls(swings, quick):
    lines = []
    found = find_splitting(maker(swings), swings, tell=lines.append)
    assert [line.split()[0] for line in lines] == ["10", "20", "40", "60"][: len(lines)]
    assert len(lines) >= 2
    assert found.error < 1e-12
    assert found.complete
    assert json.loads(found.model.metadata["search"]) == lines == found.tried


def test_a_target_ends_it_at_fewer_stages(swings, quick):
    found = find_splitting(maker(swings), swings, Budget(seconds=60, target=1e-4))
    assert found.ended == "target"
    assert found.model.arguments["stages"] == 3
    assert found.error <= 1e-4


def test_given_stages(swings, quick):
    found = find_splitting(maker(swings), swings, sizes={"stages": 2})
    assert found.model.arguments["stages"] == 2
    assert len(found.tried) == 1


def test_no_worse_than_the_method_it_begins_as(tmp_path, quick):
    """Shears without commutators begin as a method of Blanes and Moan, order six."""
    data = vp.generate("rigid-body", tmp_path / "a.h5", count=40, steps=10)
    found = find_splitting(maker(data), data, sizes={"stages": 10})
    test = TrainingData(data)
    classical = vp.models.build(data.system, "split", stages=10)
    test.normalise(classical)
    classical.core.begin_as(vp.dynamics.compositions.FACTORS["blanes-moan-6"])
    assert "blanes-moan-6" in found.tried[0]
    assert found.history.test_error <= test.test_error(classical)


def test_it_ends_when_further_stages_bring_nothing(swings, monkeypatch):
    """Twice in a row."""
    monkeypatch.setattr(stages, "_EPOCHS", 1)
    monkeypatch.setattr(stages, "_GAIN", 1e9)
    found = find_splitting(maker(swings, commutators=True), swings)
    assert [line.split()[0] for line in found.tried] == ["3", "5", "8"]


def test_equations_without_exact_flows(tmp_path):
    data = vp.generate("double-pendulum", tmp_path / "a.h5", count=10, steps=5)
    with pytest.raises(InputError, match="no position together with its own momentum"):
        find_splitting(maker(data), data)
    other = vp.generate("pendulum", tmp_path / "b.h5", count=10, steps=5)
    with pytest.raises(InputError, match="spff is no splitting; take the model split"):
        find_splitting(lambda _: vp.models.build(other.system, "spff"), other)


def test_a_budget_that_is_used_up_is_no_reason_to_end(swings, quick, monkeypatch):
    """Other models may be tried: ``ended`` is for targets and interrupts alone."""
    monkeypatch.setattr(stages.SearchOptions, "is_late", lambda self, share=1.0: True)
    found = find_splitting(maker(swings), swings)
    assert (len(found.tried), found.ended) == (1, "")
