"""The search for functions, degree and depth."""

import json
import signal
import time

import numpy as np
import pytest
import torch

import vpintegrator as vp
from vpintegrator import models
from vpintegrator.data import generate
from vpintegrator.errors import InputError
from vpintegrator.models.growth import attention
from vpintegrator.training import Budget, History, find_functions
from vpintegrator.training.search import couplings as searching
from vpintegrator.training.search.sizes import count


def maker(body):
    def make(arguments):
        torch.manual_seed(0)
        return models.VolumePreservingFeedForward(
            dim=3, reversing_symmetries=body.system.reversing_symmetries, **arguments
        )

    return make


def search(body, epochs=300, target=None, sizes=None, **options):
    lines = []
    found = find_functions(
        maker(body),
        body,
        Budget(None, epochs, target),
        sizes=sizes,
        tell=lines.append,
        progress=False,
        compiled=False,
        **options,
    )
    assert found.tried == lines
    return found


@pytest.mark.thorough
def test_the_functions_of_the_system_are_tried(tmp_path):
    """An exponential is in the equations: no polynomial is as good, and the larger grow from it."""
    data = generate("morse", tmp_path / "a.h5", count=40, steps=4)

    def make(arguments):
        return models.build(data.system, "vpff", **arguments)

    lines = []
    options = {"tell": lines.append, "progress": False, "compiled": False, "initial_scheme": "none"}
    found = find_functions(make, data, Budget(None, 150), **options)
    assert found.model.arguments["expressions"] == ["exp(2 - z[0])"]
    assert "polynomials of degree 4, depth 2" in lines[0]
    assert "polynomials of degree 4 with 1 of the system's functions, depth 2" in lines[1]


def test_a_target_ends_the_search_with_the_smallest_that_reaches_it(body):
    found = search(body, target=1e-5)
    assert found.ended == "target"
    assert found.error <= 1e-5
    assert count(found.model) == 18
    assert len(found.tried) == 1


def test_an_interrupt_ends_the_search_with_what_there_is(body):
    def interrupt(history):
        if history.epochs == 5:
            raise KeyboardInterrupt

    found = find_functions(maker(body), body, Budget(None, 600), progress=interrupt, compiled=False)
    assert found.ended == "interrupt"
    assert found.history.epochs == 5
    assert found.error < 1


@pytest.mark.parametrize("stage", ["splitting_of", "larger_ones", "simplified"])
def test_an_interrupt_between_two_trainings_keeps_the_best_model(body, monkeypatch, stage):
    def interrupt(*_, **__):
        signal.raise_signal(signal.SIGINT)
        return done(*_, **__)

    done = getattr(searching, stage)
    monkeypatch.setattr(searching, stage, interrupt)
    found = search(body, 150, sizes={"depth": 1})
    assert found.ended == found.history.stopped_by == "interrupt"
    assert found.error < 1e-2
    assert found.history.test_error < 1e-2
    assert json.loads(found.model.metadata["training"])


def pretended(monkeypatch, errors):
    """Let training end with errors that are known: a list for each kind of functions."""

    def train(model, data, **options):
        own = errors[model.arguments.get("functions", "neurons")]
        error = own.pop(0) if len(own) > 1 else own[0]
        history = History("levenberg-marquardt", 0, 0, stopped_by="patience")
        history.add(0.0, error, error)
        return history

    monkeypatch.setattr(searching, "run", train)


@pytest.mark.parametrize(
    ("neurons", "best"), [([8.4e-3, 4e-3], "polynomial"), ([8.4e-3, 2e-3], "neurons"), ([1.0], "")]
)
def test_the_smallest_validation_error_decides(body, monkeypatch, neurons, best):
    """Neurons that are not far behind are trained on first, and that is said."""
    pretended(monkeypatch, {"polynomial": [3.1e-3], "neurons": list(neurons)})
    lines = []
    found = find_functions(maker(body), body, Budget(None, 150), tell=lines.append, progress=False)
    assert found.model.arguments.get("functions", "neurons") == (best or "polynomial")
    assert found.error == min(3.1e-3, *neurons)
    assert any("trained on beside the polynomials" in line for line in lines) == bool(best)


@pytest.mark.parametrize(("error", "kept"), [(2.8e-8, False), (2.5e-8, True)])
def test_a_larger_model_that_gains_nothing_is_not_kept_and_that_is_said(
    body, monkeypatch, error, kept
):
    pretended(monkeypatch, {"polynomial": [3e-8, error]})
    lines = []
    found = find_functions(maker(body), body, Budget(None, 150), tell=lines.append, progress=False)
    assert found.error == (error if kept else 3e-8)
    assert any("not a tenth better, so the model before is kept" in line for line in lines) != kept


def test_a_degree_that_cannot_be_is_refused(body):
    with pytest.raises(InputError, match="at most 64"):
        search(body, sizes={"degree": 1000})


def test_attention_rests_where_states_are_complete(body):
    def make(arguments):
        torch.manual_seed(0)
        symmetries = body.system.reversing_symmetries
        return models.VolumePreservingTransformer(
            dim=3, window=2, reversing_symmetries=symmetries, **arguments
        )

    sizes = {"degree": 2, "depth": 1}  # so that something is left to learn
    options = {"sizes": sizes, "progress": False, "compiled": False, "initial_scheme": "none"}
    found = find_functions(make, body, Budget(None, 150), **options)
    for _ in range(2):
        frozen = [p for layer in attention(found.model) for p in layer.parameters()]
        assert frozen
        assert not any(p.requires_grad or p.any() for p in frozen)
        states = torch.randn(1, 2, 3, dtype=torch.float64)
        alone = [found.model(state.expand(1, 2, 3))[0, 0] for state in states[0]]
        torch.testing.assert_close(found.model(states)[0], torch.stack(alone))
        history = vp.train(found.model, body, epochs=5, progress=False, compiled=False)
    assert history.best_validation_error <= found.error


def test_a_named_scheme_is_for_the_model_that_begins_as_it(body):
    found = search(body, 120, initial_scheme="blanes-moan-4", sizes={"degree": 2, "depth": 4})
    assert found.model.metadata["initial_scheme"] == "blanes-moan-4"
    with pytest.raises(InputError, match="more layers than depth = 1"):
        search(body, 120, initial_scheme="blanes-moan-4", sizes={"degree": 2, "depth": 1})


def shown(history):
    """A progress of one's own."""


def test_attention_rests_where_several_states_are_predicted_at_once(body):
    """The search of vpmt had no small polynomials, as it counted attention that was to rest."""

    def make(arguments):
        torch.manual_seed(0)
        sizes = {"dim": 3, "window": 3, "prediction_window": 3} | arguments
        return models.VolumePreservingMultiheadTransformer(**sizes)

    options = {"progress": False, "compiled": False, "initial_scheme": "none"}
    found = find_functions(make, body, Budget(None, 100, 1e-3), **options)
    assert found.error < 1e-3
    assert found.model.arguments["functions"] == "polynomial"
    assert found.model.attention_at_identity == "attention at the identity"
    assert not any(p.any() for layer in attention(found.model) for p in layer.parameters())
    before = count(found.model)
    vp.train(found.model, body, epochs=1, compiled=False)
    assert count(found.model) == before < 100


def test_attention_learns_where_states_are_incomplete(tmp_path):
    """Rotations by angles that only the states before tell: a gradient of zero kept it frozen."""
    random = np.random.default_rng(0)
    angle, phase, size = (random.uniform(*ends, (60, 1)) for ends in ((0.3, 0.9), (0, 6), (1, 2)))
    angles = angle * np.arange(8) + phase
    states = np.stack([size * np.cos(angles), size * np.sin(angles)], -1)
    data = vp.import_dataset(states, tmp_path / "a.h5", step=1.0)

    def make(arguments):
        given = {"window": 3, "attention_width": 2, "heads": 1} | arguments
        return models.build(data.system, "vpmt", **given)

    sizes = {"degree": 2, "depth": 1}
    options = {"sizes": sizes, "progress": False, "compiled": False, "initial_scheme": "none"}
    found = find_functions(make, data, Budget(None, 150), **options)
    assert "attention is trained, too" in found.model.choices[-1]
    assert all(p.requires_grad for p in found.model.parameters())
    before, after = (
        float(line.split(": ")[1].split()[0]) for line in found.tried[:: len(found.tried) - 1]
    )
    assert after == pytest.approx(found.error, rel=0.06)
    assert after < before / 3
    assert not any("neurons" in line for line in found.tried)


@pytest.mark.thorough
def test_a_search_within_its_seconds_can_be_repeated_on_a_slower_machine(body, monkeypatch):
    """Decisions count iterations: the same sizes and the same weights, whatever the time."""
    options = {"progress": False, "initial_scheme": "none", "sizes": {"depth": 2}}
    monkeypatch.setattr(searching, "ITERATIONS", 300)
    budget = Budget(seconds=1e6)
    first = find_functions(maker(body), body, budget, **options)

    def slow(history):
        clock[0] += 100.0

    clock, now = [0.0], time.perf_counter
    monkeypatch.setattr(time, "perf_counter", lambda: now() + clock[0])
    second = find_functions(maker(body), body, budget, **(options | {"progress": slow}))
    assert clock[0] > 1e4
    assert first.model.arguments == second.model.arguments
    assert first.error == second.error and first.epochs == second.epochs
    for one, other in zip(first.model.parameters(), second.model.parameters(), strict=True):
        assert torch.equal(one, other)
