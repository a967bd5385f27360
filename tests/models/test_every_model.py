"""What holds for every architecture by its declaration alone, a new one included."""

import pytest
import torch

import vpintegrator as vp
from tests.models.needed import needed
from tests.nn.laws import assert_close, sample
from vpintegrator.compiled import CompiledModel
from vpintegrator.models import ARCHITECTURES
from vpintegrator.models.arguments import arguments_of


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_it_is_the_same_from_a_file_and_as_machine_code(name, tmp_path):
    torch.manual_seed(0)
    small = {"depth": 1, "width": 4, "attention_width": 4}
    declared = arguments_of(ARCHITECTURES[name])
    sizes = {key: size for key, size in small.items() if key in declared}
    model = ARCHITECTURES[name](dim=4, **needed(name), **sizes).eval()
    X = sample(6, model.window, 4)
    vp.save(model, tmp_path / "a.safetensors")
    loaded = vp.load(tmp_path / "a.safetensors").eval()
    assert (loaded.name, loaded.arguments) == (name, model.arguments)
    assert_close(loaded(X), model(X), 0)
    states, _ = CompiledModel(model, 6).predict(X.numpy(), 1)
    assert_close(torch.from_numpy(states), model.predict(X).detach(), 1e-11)
