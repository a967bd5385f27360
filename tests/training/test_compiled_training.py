"""Training as machine code does what training in PyTorch does, to rounding."""

import importlib

import pytest
import torch

from vpintegrator.errors import InputError
from vpintegrator.training import train

from .conftest import ITERATIVE, weights

LOOP = importlib.import_module("vpintegrator.training.train")  # beside the function of this name
CASES = {
    "levenberg-marquardt": {},
    "relative": {"optimizer": "levenberg-marquardt", "loss": "relative"},
    "horizon": {"optimizer": "levenberg-marquardt", "horizon": 3},
    "noise": {"optimizer": "adam", "noise": 1e-2, "horizon": 2},
    "adam": {"optimizer": "adam", "batch": 100},
    "l-bfgs": {"optimizer": "l-bfgs"},
    "single precision": {"optimizer": "adam", "batch": 100, "dtype": torch.float32},
}


@pytest.mark.parametrize("case", CASES)
def test_equal_to_pytorch(body, one_step, case):
    found, histories = [], []
    for compiled in (False, True):
        options = {"optimizer": case} | CASES[case]
        dtype = options.pop("dtype", torch.float64)
        model = one_step(2, dtype=dtype)
        # line searches and damping amplify rounding from one iteration to the next
        histories.append(train(model, body, epochs=2, compiled=compiled, **options))
        found.append(weights(model))
    assert [history.compiled for history in histories] == [False, True]
    rel = 1e-6 if dtype == torch.float64 else 1e-3
    torch.testing.assert_close(found[1], found[0], rtol=rel, atol=0.1 * rel)
    for name in ("training_error", "validation_error", "test_error"):
        expected, errors = (getattr(history, name) for history in histories)
        assert errors == pytest.approx(expected, rel=rel)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("optimizer", ITERATIVE)
def test_equal_runs_are_equal_to_the_last_bit(body, one_step, optimizer, compiled):
    models = one_step(2), one_step(2)
    for model in models:
        train(model, body, compiled=compiled, optimizer=optimizer, epochs=4, seed=3, noise=1e-4)
    assert torch.equal(*map(weights, models))


def test_an_explosion_is_rolled_back(body, one_step):
    model = one_step(2)
    before = weights(model)
    history = train(model, body, optimizer="adam", epochs=9, learning_rate=1e308, compiled=True)
    assert history.stopped_by == "divergence"
    assert torch.equal(before, weights(model))


def test_weights_that_are_not_trained_stay(body, one_step):
    for compiled in (False, True):
        model = one_step(2)
        fixed = next(model.parameters()).requires_grad_(False)
        before = fixed.clone()
        train(model, body, epochs=3, compiled=compiled)
        assert torch.equal(fixed, before)


def test_what_is_chosen(body, one_step, monkeypatch):
    """Short budgets and slow compilers: PyTorch. Long ones: machine code."""
    seen = []

    def residual(model, weights, *, worth, **options):
        seen.append((worth(8.0, False), worth(8.0, True)))
        raise LOOP.NotWorthIt

    monkeypatch.setattr(LOOP, "CompiledResidual", residual)

    def ask(optimizer="levenberg-marquardt", compiled=None, **options):
        seen.clear()
        train(one_step(2), body, target=1.0, optimizer=optimizer, compiled=compiled, **options)
        return seen[0] if seen else None

    # the cache has no say: a run must be the same to the last bit
    assert ask(seconds=1.0) is None
    assert ask(seconds=20.0) == (True, True)
    assert ask(seconds=20.0, compiled=True) == (True, True)
    assert ask(epochs=400) == (True, True)
    assert ask(seconds=10.0, epochs=5000) == (False, False)
    assert ask("adam", epochs=50, batch=10) == (True, True)
    assert ask(seconds=1e3, compiled=False) is None


def test_without_a_compiler(body, one_step, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(InputError, match="cannot be compiled: the compiler no-such-compiler"):
        train(one_step(2), body, epochs=1, compiled=True)
    with pytest.warns(UserWarning, match="trains in PyTorch, not compiled: the compiler no-such"):
        history = train(one_step(2), body, seconds=100, epochs=1000, target=1.0)
    assert history.stopped_by == "target" and not history.compiled
