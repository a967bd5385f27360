"""Initial states spread evenly over an invariant."""

import numpy as np
import pytest

from vpintegrator.data import Stratification, load_recipe
from vpintegrator.errors import InputError


def energies(recipe):
    return recipe.system.invariants["energy"](recipe.initial_states())


def test_every_stratum_gets_its_share():
    recipe = load_recipe("pendulum", count=205, stratified={"strata": 10, "range": [-0.9, 0.8]})
    found = energies(recipe)
    counts = np.histogram(found, 10, (-0.9, 0.8))[0]
    assert sorted(counts) == [20] * 5 + [21] * 5
    plain = np.histogram(energies(load_recipe("pendulum", count=205)), 10, (-0.9, 0.8))[0]
    assert plain.max() > 2 * max(plain.min(), 1)  # which would not have been so


def test_the_range_is_that_of_the_distribution_by_default():
    recipe = load_recipe("rigid-body", count=100, stratified={"strata": 4})
    values = energies(recipe)
    many = energies(load_recipe("rigid-body", count=5000))
    low, high = np.quantile(many, [0.01, 0.99])
    assert abs(values.min() - low) < 0.05 * (high - low)
    assert np.histogram(values, 4, (values.min(), values.max()))[0].min() > 15
    # still of the distribution: on the sphere
    np.testing.assert_allclose(np.linalg.norm(recipe.initial_states(), axis=1), 1)


def test_repeatable_and_in_random_order():
    recipe = load_recipe("pendulum", count=60, stratified={"strata": 6})
    np.testing.assert_array_equal(recipe.initial_states(), recipe.initial_states())
    again = load_recipe(recipe.text)
    np.testing.assert_array_equal(again.initial_states(), recipe.initial_states())
    values = energies(recipe)
    assert abs(np.corrcoef(np.arange(60), values)[0, 1]) < 0.5


def test_a_list_of_states_is_chosen_from():
    points = [[q, 0.0] for q in np.linspace(0.1, 2.5, 400).tolist()]
    recipe = load_recipe(
        "pendulum",
        count=30,
        initial_conditions={"distribution": "points", "points": points},
        stratified={"strata": 5, "invariant": "energy"},
    )
    chosen = {tuple(state) for state in recipe.initial_states()}
    assert len(chosen) == 30
    assert chosen <= {tuple(point) for point in points}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"strata": 0}, "strata: expected a whole number"),
        ({"range": [1, 0]}, "range: expected the least and the largest"),
        ({"quantiles": [-0.5, 1]}, "between 0 and 1"),
        ({"range": [0, 1], "quantiles": [0, 1]}, "range or quantiles, not both"),
        ({"invariant": "enrgy"}, "no invariant 'enrgy'.*'energy'"),
        ({"level": 1}, "unknown key 'level'"),
    ],
)
def test_mistakes(table, message):
    with pytest.raises(InputError, match=message):
        load_recipe("pendulum", count=10, stratified=table).initial_states()


def test_a_stratum_without_states(monkeypatch):
    monkeypatch.setattr("vpintegrator.data.stratified._FRUITLESS", 100_000)
    far = Stratification(strata=2, range=(-0.9, 900.0))
    with pytest.raises(InputError, match=r"too few have energy between 449.6 and 900"):
        load_recipe("pendulum", count=10, stratified=far).initial_states()
    text = 'state = ["x"]\n[vector_field]\nx = "1"\n[initial_conditions]\ndistribution = "normal"'
    with pytest.raises(InputError, match="no invariant to spread"):
        load_recipe(text, step=0.1, stratified=far).initial_states()
