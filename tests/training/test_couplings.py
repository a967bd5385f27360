"""Couplings as a kind of map: which sizes are trained, and which of them is kept."""

import numpy as np
import pytest
import torch

import vpintegrator as vp
from tests.training.conftest import fit_with, fits_of, weights
from vpintegrator.errors import InputError
from vpintegrator.training import Couplings, History, Trainer, TrainingOptions
from vpintegrator.training.kinds.kind import count
from vpintegrator.training.results import best
from vpintegrator.training.training_data import TrainingData

DAMPED = """
state = ["q", "p"]
[vector_field]
q = "p"
p = "-sin(q) - p/10"
[initial_conditions]
distribution = "uniform"
low = [-1, -1]
high = [1, 1]
"""
PLAIN = TrainingOptions(compiled=False, initial_scheme="none")


@pytest.fixture(scope="module")
def body(tmp_path_factory):
    path = tmp_path_factory.mktemp("couplings") / "body.h5"
    return vp.generate("rigid-body", path, count=60, steps=6)


def pretended(**errors):
    """A trainer whose trainings end with errors that are known: a list for each functions."""

    class Pretended(Trainer):
        def __call__(self, model, size, *, epochs=None, patience=None, options=None):
            own = errors[model.arguments.get("functions", "neurons")]
            error = own.pop(0) if len(own) > 1 else own[0]
            history = History("levenberg-marquardt", 0, count(model), stopped_by="patience")
            history.add(0.0, error, error)
            history.epoch = [epochs]
            return self.record(model, size, error, 0.0, history)

    return Pretended


@pytest.mark.thorough
def test_the_functions_of_the_system_are_tried(tmp_path):
    """An exponential is in the equations: no polynomial is as good, and the larger grow from it."""
    data = vp.generate("morse", tmp_path / "a.h5", count=40, steps=4)
    fits = fits_of(Couplings(architecture="vpff", training=PLAIN), data, epochs=150)
    assert best(fits).model.arguments["expressions"] == ["exp(2 - z[0])"]
    sizes = [*dict.fromkeys(fit.size.split(", depth")[0] for fit in fits)]
    assert sizes[0] == "polynomials of degree 4"
    assert sizes[1] == "polynomials of degree 4 with 1 of the system's functions"


def test_a_target_ends_the_growth_with_the_smallest_that_reaches_it(body):
    fits = fits_of(Couplings(training=PLAIN), body, epochs=300, target=1e-5)
    assert fits[-1].error <= 1e-5 and fits[-1].stopped_by == "target"
    assert {count(fit.model) for fit in fits} == {18}


@pytest.mark.parametrize(
    ("neurons", "functions"),
    [([8.4e-3, 4e-3], "polynomial"), ([8.4e-3, 2e-3], "neurons"), ([1.0], "polynomial")],
)
def test_the_least_error_decides(body, neurons, functions):
    """Neurons that are not far behind are trained on first."""
    train = pretended(polynomial=[3.1e-3], neurons=list(neurons))
    fits = fits_of(Couplings(), body, epochs=1_000, train=train)
    assert best(fits).model.arguments.get("functions", "neurons") == functions
    assert best(fits).error == min(3.1e-3, *neurons)
    trained = sum(fit.size.startswith("neurons") for fit in fits[:-1])
    assert trained == (2 if neurons[0] < 4 * 3.1e-3 else 1)


@pytest.mark.parametrize(("error", "kept"), [(2.8e-8, False), (2.5e-8, True)])
def test_a_larger_model_must_do_better_by_a_tenth_to_be_trained_last(body, error, kept):
    fits = fits_of(Couplings(), body, epochs=150, train=pretended(polynomial=[3e-8, error]))
    assert (fits[-1].model is not fits[0].model) == kept
    assert fits[-1].model in [fit.model for fit in fits[:-1]]


def test_a_degree_that_cannot_be_is_refused(body):
    with pytest.raises(InputError, match="at most 64"):
        fits_of(Couplings({"degree": 1000}), body, epochs=100)


def test_sizes_that_are_given_stay(body):
    train = pretended(polynomial=[1e-2, 1e-3, 1e-4, 1e-5])
    fits = fits_of(Couplings({"degree": 2}), body, epochs=150, train=train)
    assert {fit.model.arguments["degree"] for fit in fits} == {2}
    assert len({fit.model.arguments["depth"] for fit in fits}) > 1


@pytest.mark.parametrize(
    ("system", "form", "options", "reason"),
    [
        ("rigid-body", None, {}, None),
        ("rigid-body", "volume", {}, None),
        ("rigid-body", "symplectic", {}, "is volume, not symplectic"),
        ("pendulum", "volume", {}, "is symplectic, not volume"),
        ("pendulum", None, {"functions": "neurons"}, "the functions are given"),
        (DAMPED, None, {}, "the flow changes it"),
    ],
)
def test_refusals_are_sentences(tmp_path, system, form, options, reason):
    data = TrainingData(vp.generate(system, tmp_path / "a.h5", count=6, steps=2, step=0.1))
    refusal = Couplings(options, form=form).admits(data)
    assert refusal is None if reason is None else reason in refusal


@pytest.mark.parametrize(
    ("error", "explicit", "needed"),
    [(1e-8, True, True), (1e-10, True, False), (1e-13, False, True), (1e-15, False, False)],
)
def test_nothing_is_trained_that_cannot_be_chosen(body, error, explicit, needed):
    assert Couplings().is_needed(TrainingData(body), [fit_with(error, explicit=explicit)]) == needed


@pytest.mark.parametrize("name", ["vpt", "vpmt"])
@pytest.mark.parametrize("predicted", [1, 3])
def test_all_weights_are_trained(body, name, predicted):
    options = {"window": 3, "prediction_window": predicted, "degree": 2, "depth": 1}
    kind = Couplings(options, training=PLAIN, architecture=name)
    maps = []
    for seed in (0, 1):
        model = best(fits_of(kind, body, epochs=60, target=1e-3, seed=seed)).model
        torch.manual_seed(seed)
        drawn = vp.models.build(body.system, name, {"functions": "polynomial", **options})
        pairs = zip(model.parameters(), drawn.parameters(), strict=True)
        assert all(p.requires_grad and not torch.equal(p, first) for p, first in pairs)
        maps.append(model(torch.from_numpy(body.states("test")[:, :3])))
    assert not torch.equal(*maps)


def test_attention_learns_what_states_before_tell(tmp_path):
    """Rotations by angles that only the states before tell."""
    random = np.random.default_rng(0)
    angle, phase, size = (random.uniform(*ends, (60, 1)) for ends in ((0.3, 0.9), (0, 6), (1, 2)))
    angles = angle * np.arange(8) + phase
    states = np.stack([size * np.cos(angles), size * np.sin(angles)], -1)
    data = vp.import_dataset(states, tmp_path / "a.h5", step=1.0)
    options = {"degree": 2, "depth": 1}
    errors = []
    windowed = {"window": 3, "attention_width": 2, "heads": 1}
    for name, sizes in (("vpmt", windowed), ("vpff", {})):
        kind = Couplings(options | sizes, training=PLAIN, architecture=name)
        errors.append(best(fits_of(kind, data, epochs=150)).error)
    assert errors[0] < errors[1] / 3


def test_two_fits_are_equal_to_the_last_bit(body):
    kind, limits = Couplings({"depth": 1}, training=PLAIN), {"epochs": 100, "target": 1e-4}
    assert torch.equal(*(weights(fits_of(kind, body, **limits)[-1].model) for _ in range(2)))
