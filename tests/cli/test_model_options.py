"""The options of a model are listed from its constructor, none left out."""

import inspect
import json

import pytest

from tests.cli.conftest import refused
from vpintegrator.cli.architecture import GIVEN_OTHERWISE
from vpintegrator.cli.train import main
from vpintegrator.models import ARCHITECTURES


@pytest.mark.parametrize("name", list(ARCHITECTURES))
def test_the_help_of_a_model_shows_its_options(run, name):
    text = run(main, "--model", name, "--help").output
    assert text == run(main, f"--model={name}", "--help").output.replace(f"={name}", f" {name}")
    options = text.partition(f"Options of {name}")[2]  # a linear map has none
    for argument, parameter in inspect.signature(ARCHITECTURES[name]).parameters.items():
        words = (f"--{argument.replace('_', '-')} ", f"--option {argument}=")
        given = argument not in GIVEN_OTHERWISE
        assert any(word in options for word in words) == given, argument
        if given and isinstance(parameter.default, int) and not isinstance(parameter.default, bool):
            assert f"[default: {parameter.default}]" in " ".join(options.split())


def test_the_list_of_models(run):
    text = run(main, "--list-models").output
    assert "--option time_mixing=true|false" in text
    assert "--weighting auto|skew|coupled|arbitrary" in text
    assert "Hidden units of each coupling.  [default: 16]" in text
    listed = json.loads(run(main, "--list-models", "--json").stdout)
    assert list(listed) == list(ARCHITECTURES)
    widths = [o for o in listed["vpt"]["options"] if o["option"].startswith("--width")]
    assert widths[0]["default"] == 16


def test_without_a_dataset_there_is_a_sentence(run):
    assert refused(run(main), "name the dataset to train on")
