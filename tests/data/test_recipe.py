"""Recipes: from the catalogue, from files, for systems, with overrides."""

import dataclasses
import tomllib

import pytest

from vpintegrator.data import generate, list_recipes, load_recipe
from vpintegrator.errors import InputError
from vpintegrator.storage.toml import toml_text

SYSTEM = """
title = "Duffing oscillator"
state = ["q", "p"]
hamiltonian = "p**2/2 - q**2/2 + b*q**4/4"
[parameters]
b = 1
[initial_conditions]
distribution = "uniform"
low = -1
high = 1
"""


@pytest.mark.parametrize("name", list_recipes())
def test_the_catalogue_loads(name):
    recipe = load_recipe(name)
    assert recipe.title
    assert recipe.step == recipe.system.defaults["step"]


def test_the_text_makes_the_same_recipe_again():
    first = load_recipe("rigid-body-circles", seed=5, parameters={"I1": 3.0}, rtol=1e-10)
    again = load_recipe(first.text)
    assert again.text == first.text
    assert again.system.parameters["I1"] == 3
    assert again.initial_conditions["distribution"] == "curves"


def test_a_system_makes_a_recipe():
    recipe = load_recipe("pendulum", steps=7, count=100)
    assert recipe.steps == 7
    assert recipe.step == 0.2
    with pytest.raises(InputError, match="suggests no step; give one with --step"):
        load_recipe(SYSTEM)
    assert load_recipe(SYSTEM, step=0.1, parameters={"b": 2}).system.parameters["b"] == 2


def test_a_recipe_file_finds_its_system_beside_it(tmp_path, monkeypatch):
    (tmp_path / "duffing.toml").write_text(SYSTEM)
    (tmp_path / "sub").mkdir()
    path = tmp_path / "sub" / "data.toml"
    path.write_text('system = "../duffing.toml"\nstep = 0.1\nsteps = 5\n')
    monkeypatch.chdir(tmp_path / "sub")
    assert load_recipe(path).system.title == "Duffing oscillator"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('system = "rigid-bod"\nstep = 1', "there is no system 'rigid-bod'.*'rigid-body'"),
        ('system = "pendulum"\nstep = -1', "step = -1 must be positive"),
        ('system = "pendulum"\nsteps = 0', "steps = 0 must be a whole number, 1 to"),
        ('system = "pendulum"\nsped = 1', "unknown key 'sped'"),
        ('system = "pendulum"\nsolver = 1', "'solver' must be a table"),
        ('system = "pendulum"\n[solver]\nmethod = "RK44"', "no solver 'RK44'"),
        ('system = "pendulum"\n[solver]\nmethod = "rk44"', "no solver 'rk44'.*'rk4'"),
        ('system = "rigid-body"\n[solver]\nmethod = "stoermer-verlet"', "Hamiltonian H"),
        ('system = "pendulum"\n[solver]\nmethod = "rk4"\n[vary]\nstep = [1, 2]', "one step"),
        ('system = "pendulum"\n[solver]\nrtol = 1e-16', "limit of double precision"),
        ('system = "pendulum"\n[trajectories]\ntran = 6', "unknown key 'tran'.*'train'"),
        ('system = "pendulum"\n[parameters]\nq = 6', "no parameter 'q'"),
        ("system = pendulum", "not valid TOML"),
        (f'system = "pendulum"\nsteps = 1{"0" * 30}', "steps = 10+ must be a whole number"),
    ],
)
def test_mistakes(text, message):
    with pytest.raises(InputError, match=message):
        load_recipe(text + "\n")


OWN = """
title = "Own 'pendulum', of \\"two\\" lengths"  # ways of quoting
state = ["q", "p"]
hamiltonian = "p**2/2 - g*cos(q) + sum(m[i]*q**2 for i in range(2))"
[parameters]
g = 2.0
m = [0.1, "1/3"]
[initial_conditions]
distribution = "uniform"
low = [-1, -1]
high = [1, 1]
[defaults]
step = 0.1
steps = 5
"""


@pytest.mark.parametrize(
    "change", [str, lambda text: text + "# '''\n", lambda t: t + "#\u2028\t\n"]
)
def test_the_recipe_in_a_file_makes_the_same_numbers_without_the_own_system(tmp_path, change):
    path = tmp_path / "pendulum.toml"  # the catalogue has another one of this name
    path.write_text(change(OWN), encoding="utf-8")
    first = generate(path, tmp_path / "a.h5", count=6, parameters={"g": 3.0})
    path.unlink()
    (tmp_path / "recipe.toml").write_text(first.recipe, encoding="utf-8")
    for source in (first.recipe, tmp_path / "recipe.toml"):
        again = generate(source, tmp_path / "b.h5", overwrite=True)
        assert again.fingerprint == first.fingerprint
        assert again.recipe == first.recipe
        assert again.system.name == "pendulum"
        assert again.system.text == first.system.text
    assert again.system.definitions["g"] == 3.0
    catalogue = generate("pendulum", tmp_path / "c.h5", count=6)
    assert 'system = "pendulum"' in catalogue.recipe
    assert "system_name" not in catalogue.recipe


@pytest.mark.parametrize("key", ["-0.0", "a b", "a.b", "", 'say "a"', "line\nend", "\x7f", "é"])
def test_keys_come_back_as_they_were(key):
    table = {key: {key: [1, "x"]}, "distribution": "normal"}
    text = toml_text({"table": table}, {})
    assert tomllib.loads(text) == {"table": table}
    recipe = dataclasses.replace(load_recipe("pendulum"), initial_conditions=table)
    assert load_recipe(recipe.text).initial_conditions == table
