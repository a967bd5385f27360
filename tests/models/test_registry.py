"""Models of a user's own: saved, and loaded by their class."""

import pytest
import torch

import vpintegrator as vp
from tests.nn.laws import assert_close, sample
from vpintegrator.errors import InputError


class Own(vp.models.Model):
    """A model of one's own."""

    def __init__(self, dim: int, *, layers: int = 2, reversing_symmetries=()) -> None:
        components = vp.models.Components(dim, reversing_symmetries)
        kicks = [vp.nn.AdditiveCoupling(dim, symmetries=components.group) for _ in range(layers)]
        super().__init__(vp.nn.Composition(*kicks), components, description="a model of one's own")


class Taken(Own):
    """Another class of the same arguments."""


def test_a_class_of_ones_own_is_saved_and_loaded(tmp_path):
    path = tmp_path / "own.safetensors"
    rho = torch.diag(torch.tensor([1.0, -1, 1]))
    model = Own(dim=3, layers=1, reversing_symmetries=[rho])
    model.set_normalisation([1.0, 0.0, 2.0], [2.0, 1.0, 3.0])
    vp.save(model, path)
    again = vp.load(path, model=Own)
    assert (type(again), again.arguments) == (Own, model.arguments)
    assert again.arguments == {"dim": 3, "layers": 1, "reversing_symmetries": [rho.tolist()]}
    X = sample(4, 1, 3)
    assert_close(again(X), model(X), 0)
    with pytest.raises(InputError, match=r"of the class '.*Own', .*vp.load\(path, model=MyModel\)"):
        vp.load(path)
    with pytest.raises(InputError, match=r"the class .*Own: it is not a .*Taken"):
        vp.load(path, model=Taken)
    vp.save(vp.models.LinearMap(dim=2), tmp_path / "linear.safetensors")
    with pytest.raises(InputError, match="holds a model of this package, linear; leave out model"):
        vp.load(tmp_path / "linear.safetensors", model=Own)


def test_a_model_made_of_a_module_alone_cannot_be_saved(tmp_path):
    model = vp.models.Model(torch.nn.Identity(), 2)
    with pytest.raises(InputError, match=r"cannot be built again, .* missing .*'core'"):
        vp.save(model, tmp_path / "a.safetensors")


def test_names_are_found():
    assert vp.models.ARCHITECTURES.find("vpt") is vp.models.VolumePreservingTransformer
    with pytest.raises(InputError, match="there is no model 'vtp'; did you mean 'vpt'"):
        vp.models.ARCHITECTURES.find("vtp")
