"""Former names: they work, with a warning that says the new one."""

import pytest
from click.testing import CliRunner

import vpintegrator as vp
from vpintegrator.cli.train import main
from vpintegrator.renamed import with_new_names


@pytest.mark.parametrize(
    ("module", "former", "name"),
    [
        (vp, "grown", "prolong"),
        (vp.models, "grown", "prolong"),
        (vp.training, "Found", "SearchResult"),
    ],
)
def test_functions(module, former, name):
    with pytest.warns(FutureWarning, match=f"{former} is now {name}"):
        assert getattr(module, former) is getattr(module, name)
    assert former not in dir(module)


def test_arguments(tmp_path):
    dataset = vp.generate("pendulum", tmp_path / "p.h5", count=5, steps=5)
    model = vp.models.build(dataset.system, "spff", degree=2, functions="polynomial")
    options = {"epochs": 1, "progress": False, "compiled": False}
    with pytest.warns(FutureWarning, match=r"kernel= is now initial_scheme="):
        vp.train(model, dataset, kernel="strang-splitting", **options)
    assert model.metadata["initial_scheme"].endswith("strang-splitting")


def test_options():
    words = ["in.h5", "--kernel=none", "--kernel", "x"]
    new = with_new_names(words, {"--kernel": "--initial-scheme"})
    assert new == ["in.h5", "--initial-scheme=none", "--initial-scheme", "x"]
    result = CliRunner().invoke(main, ["none.h5", "--kernel", "foo"])
    assert result.exit_code == 2 and "--kernel is now --initial-scheme" in result.output
    assert "initial_scheme must be" in result.output


def test_arguments_of_models():
    with pytest.warns(FutureWarning, match="clock= is now explicit_time="):
        model = vp.models.SymplecticFeedForward(dim=3, clock=True, functions="polynomial")
    assert model.explicit_time and "clock" not in model.arguments
