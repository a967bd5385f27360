"""Models of a user's own: known by name, saved and loaded, and in the command line."""

import subprocess
import sys
from dataclasses import dataclass

import pytest
import torch

import vpintegrator as vp
from tests.nn.laws import assert_close, sample
from vpintegrator.errors import InputError
from vpintegrator.models import registry

PLUGIN = """
from dataclasses import dataclass
import vpintegrator as vp

class Planted(vp.models.Integrator):
    name = "planted"
    description = "from another package"

    @dataclass(frozen=True, kw_only=True)
    class Arguments(vp.models.ReversibleArguments):
        width: int = vp.models.argument(4, "Hidden units.", least=1)

    def network(self, a):
        return vp.nn.Composition(vp.nn.AdditiveCoupling(a.dim, a.width, symmetries=a.group))
"""


@pytest.fixture
def known(monkeypatch):
    """What is registered here is forgotten afterwards."""
    monkeypatch.setattr(registry.ARCHITECTURES, "_registered", {})


class Own(vp.models.Integrator):
    name = "own"
    description = "a model of one's own"

    @dataclass(frozen=True, kw_only=True)
    class Arguments(vp.models.ReversibleArguments):
        layers: int = vp.models.argument(2, "How many.", least=1)
        bold: bool = vp.models.argument(False, "Whether it is.", omitted=True)

    def network(self, a):
        kicks = [vp.nn.AdditiveCoupling(a.dim, symmetries=a.group) for _ in range(a.layers)]
        return vp.nn.Composition(*kicks)


def test_a_registered_class_is_saved_and_loaded(known, tmp_path):
    path = tmp_path / "own.safetensors"
    model = Own(dim=3, layers=1, reversing_symmetries=[torch.diag(torch.tensor([1.0, -1, 1]))])
    with pytest.raises(InputError, match=r"can be saved, not a Own, which could not be found"):
        vp.save(model, path)
    assert vp.models.register(Own) is Own
    vp.save(model, path)
    again = vp.load(path)
    assert (type(again), again.arguments) == (Own, model.arguments)
    assert "bold" not in model.arguments
    X = sample(4, 1, 3)
    assert_close(again(X), model(X), 0)
    registry.ARCHITECTURES._registered.clear()
    with pytest.raises(InputError, match=r"'own', which .* import the module that registers it"):
        vp.load(path)


@pytest.mark.thorough
def test_an_entry_point_is_known_without_being_imported(tmp_path):
    (tmp_path / "planted.py").write_text(PLUGIN)
    info = tmp_path / "planted-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: planted\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[vpintegrator.models]\nplanted = planted:Planted\n")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from vpintegrator.models.registry import ARCHITECTURES\n"
        "assert ARCHITECTURES.descriptions()['planted'] == 'from planted:Planted'\n"
        "assert 'planted' not in sys.modules and 'torch' not in sys.modules\n"
        "import vpintegrator as vp\n"
        "vp.save(ARCHITECTURES['planted'](dim=2, width=3), 'a.safetensors')\n"
        "assert vp.load('a.safetensors').arguments['width'] == 3\n"
        "assert ARCHITECTURES.descriptions()['planted'] == 'from another package'\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": ""}, "has no name"),
        ({"name": "vpt"}, "there is a model 'vpt' already"),
        ({"network": vp.models.Integrator.network}, "build the network of them in its method"),
        ({"__init__": lambda self: None}, "declare its arguments in a dataclass"),
    ],
)
def test_what_cannot_be_registered(known, changes, message):
    with pytest.raises(InputError, match=message):
        vp.models.register(type("Mine", (Own,), changes))
