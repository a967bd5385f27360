"""Type checkers and Python itself see every argument of public functions and classes."""

import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import vpintegrator as vp
from tests.docs.test_typed_documents import CONFIG

ROOT = Path(__file__).parent.parent
FOLDERS = ("data", "dynamics", "maps", "models", "nn", "rollout", "training", "plotting")
CLASSES = [
    name
    for name in vp.models.__all__
    if inspect.isclass(value := getattr(vp.models, name)) and name != "Model"
    if issubclass(value, vp.models.Model) or name == "ClassificationTransformer"
]
# a call with all arguments that are required, the misspelt one excepted
MISSPELT = {
    "generate": 'vp.generate("pendulum", "a.h5", {})',
    "fit": 'vp.fit("a.h5", {})',
    "train": 'vp.train(vp.models.ResidualNetwork(2), "a.h5", {})',
    "compare": 'vp.compare(None, "rk4", {})',
    "rollout": "vp.rollout(vp.models.ResidualNetwork(2), [[0.0, 1.0]], 5, {})",
    "draw": 'vp.draw("report.h5", "figures", {})',
    **{name: f"vp.models.{name}(dim=2, {{}})" for name in CLASSES},
    "ClassificationTransformer": "vp.models.ClassificationTransformer("
    "height=4, width=4, patch=2, classes=2, {})",
}


@pytest.fixture(scope="session")
def reports(tmp_path_factory):
    """The errors of mypy by line in misspelt calls."""
    folder = tmp_path_factory.mktemp("types")
    calls = [call.format("misspelt=1") for call in MISSPELT.values()]
    (folder / "misspelt.py").write_text("import vpintegrator as vp\n" + "\n".join(calls))
    (folder / "mypy.ini").write_text(CONFIG)
    cache = ["--cache-dir", ROOT / ".mypy_cache" / "documents"]
    command = [sys.executable, "-m", "mypy", "--config-file", folder / "mypy.ini", *cache]
    command.append(folder / "misspelt.py")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return done.stdout.splitlines()


@pytest.mark.parametrize("name", MISSPELT)
def test_a_misspelt_keyword_is_an_error(name, reports):
    line = 2 + [*MISSPELT].index(name)
    errors = [each for each in reports if f"misspelt.py:{line}:" in each]
    assert any('Unexpected keyword argument "misspelt"' in each for each in errors), errors
    with pytest.raises(TypeError, match="unexpected keyword argument 'misspelt'"):
        eval(MISSPELT[name].format("misspelt=1"), {"vp": vp})


def signatures():
    """The public functions, classes and methods by name."""
    result = {}
    for folder in ("", *FOLDERS):
        module = importlib.import_module("vpintegrator" + (folder and f".{folder}"))
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value):
                for key, method in vars(value).items():
                    function = getattr(method, "__func__", method)
                    if inspect.isfunction(function) and (key == "__init__" or key[0] != "_"):
                        result[f"{folder}.{name}.{key}"] = function
            elif callable(value):
                result[f"{folder}.{name}"] = value
    return result


def test_signatures_name_every_argument():
    """Parameters of a system alone are free keywords."""
    free = {
        f"{name}(**{parameter.name})"
        for name, function in signatures().items()
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is parameter.VAR_KEYWORD
    }
    own = [each for each in free if "**parameters" not in each and "**conditions" not in each]
    assert own == []
