"""Arguments in groups, and flat; numbers of things."""

import inspect
from dataclasses import dataclass

import numpy as np
import pytest

from vpintegrator.arguments import grouped, whole_number
from vpintegrator.errors import InputError


@dataclass(frozen=True)
class Budget:
    seconds: float | None = None
    epochs: int | None = None

    def __post_init__(self):
        if self.epochs is not None and self.epochs < 1:
            raise InputError(f"epochs = {self.epochs} must be at least 1")


@dataclass(frozen=True)
class Objective:
    loss: str = "mean-square"


@grouped(budget=Budget, objective=Objective)
def train(model, dataset, *, budget: Budget, objective: Objective, seed: int = 0):
    """Train."""
    return model, dataset, budget, objective, seed


def test_arguments_come_in_groups_or_flat():
    expected = ("model", "data", Budget(seconds=60.0, epochs=3), Objective(), 1)
    assert train("model", "data", seconds=60.0, epochs=3, seed=1) == expected
    assert train("model", dataset="data", budget=Budget(60.0, 3), seed=1) == expected
    assert train("model", "data", budget=Budget(60.0, 2), epochs=3, seed=1) == expected
    assert train("model", "data", objective=None)[2:] == (Budget(), Objective(), 0)


def test_what_is_accepted_is_listed():
    accepted = inspect.signature(train)
    names = ["model", "dataset", "seconds", "epochs", "loss", "seed", "budget", "objective"]
    assert list(accepted.parameters) == names
    assert accepted.parameters["loss"].default == "mean-square"
    assert accepted.parameters["seconds"].kind is inspect.Parameter.KEYWORD_ONLY
    accepted.bind("model", "data", epochs=3)
    assert (train.__name__, train.__doc__) == ("train", "Train.")


def test_what_is_wrong_is_said_in_a_sentence():
    with pytest.raises(InputError, match=r"train has no argument 'epoch'; did you mean 'epochs'\?"):
        train("model", "data", epoch=3)
    with pytest.raises(InputError, match="no argument 'xyz'; there are model, dataset, seconds"):
        train("model", "data", xyz=3)
    with pytest.raises(InputError, match="budget = 60 must be a Budget"):
        train("model", "data", budget=60)
    with pytest.raises(InputError, match="epochs = 0 must be at least 1"):
        train("model", "data", epochs=0)
    with pytest.raises(TypeError, match="dataset"):
        train("model")


def test_a_name_means_one_thing():
    with pytest.raises(TypeError, match="seed is there twice"):

        @dataclass(frozen=True)
        class Seeds:
            seed: int = 0

        @grouped(seeds=Seeds)
        def clash(*, seeds, seed=0):
            pass


@pytest.mark.parametrize("value", [3, 3.0, np.int32(3), np.float64(3)])
def test_numbers_of_things(value):
    found = whole_number("steps", value, 1)
    assert (found, type(found)) == (3, int)


@pytest.mark.parametrize("value", [0, 2.5, True, "3", None, np.nan])
def test_what_is_no_number_of_things(value):
    with pytest.raises(InputError, match=r"^steps = .* must be a whole number, 1 or more$"):
        whole_number("steps", value, 1)
