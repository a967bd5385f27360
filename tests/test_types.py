"""Type checkers and Python itself see every argument of public functions and classes."""

import importlib
import inspect
import re
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
SCRIPT = """
from pathlib import Path

import numpy as np
import torch

import vpintegrator as vp


class Kicks(vp.models.Model):
    def __init__(self, dim: int, *, layers: int = 2) -> None:
        kicks = [vp.nn.AdditiveCoupling(dim, width=8) for _ in range(layers)]
        super().__init__(vp.nn.Composition(*kicks), dim)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(2, 2)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return states + torch.tanh(self.linear(states))


def pendulum(q: float, p: float, g: float = 1.0) -> tuple[float, float]:
    return p, -g * float(np.sin(q))


def energies(states: np.ndarray) -> np.ndarray:
    values: np.ndarray = states[..., 1] ** 2 / 2 - np.cos(states[..., 0])
    return values


def learn(folder: Path, seed: int = 0) -> vp.models.Model:
    dataset = vp.generate("pendulum", folder / "data.h5", count=40, steps=20, seed=seed)
    result = vp.fit(dataset, seconds=10.0, seed=seed)
    vp.save(result.model, folder / "model.safetensors")
    return vp.load(folder / "model.safetensors")


def judge(model: vp.models.Model, folder: Path) -> float:
    report = vp.compare(model, against=["rk4", "implicit-midpoint"], steps=100)
    report.save(folder / "report.h5")
    vp.draw(report, folder / "figures")
    return float(report.summary("sgf").worst_error)


def main(folder: Path) -> None:
    model = learn(folder)
    print(judge(model, folder), model.structure.keeps_volume, model.step)
    system = vp.load_system("pendulum")
    own = Kicks(dim=2, layers=3)
    history = vp.train(own, folder / "data.h5", epochs=5)
    print(history.best_validation_error)
    initial = system.sample_initial(4, np.random.default_rng(0))
    for step in (vp.classical("rk4", system, 0.1), vp.wrap(Net(), dim=2, step=0.1)):
        states = vp.rollout(step, initial, 50)
        print(states.shape, energies(np.asarray(states)).std())
    exact = vp.solve(system, initial, np.linspace(0.0, 1.0, 11))
    print(np.abs(exact - vp.integrate(system, "rk4", initial, 0.1, 10)).max())


main(Path("results"))
"""


@pytest.fixture(scope="session")
def reports(tmp_path_factory):
    """The errors of mypy in the script, and by line in misspelt calls."""
    folder = tmp_path_factory.mktemp("types")
    (folder / "script.py").write_text(SCRIPT)
    calls = [call.format("misspelt=1") for call in MISSPELT.values()]
    (folder / "misspelt.py").write_text("import vpintegrator as vp\n" + "\n".join(calls))
    (folder / "mypy.ini").write_text(CONFIG)
    cache = ["--cache-dir", ROOT / ".mypy_cache" / "documents"]
    command = [sys.executable, "-m", "mypy", "--config-file", folder / "mypy.ini", *cache]
    command += [folder / "script.py", folder / "misspelt.py"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return done.stdout.splitlines()


def test_a_script_is_typed(reports):
    assert len(SCRIPT.splitlines()) > 60
    assert len(set(re.findall(r"vp\.(\w+)\(", SCRIPT))) >= 10
    assert not [line for line in reports if "script.py" in line]


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
