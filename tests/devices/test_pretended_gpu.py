"""The device of these tests itself: it refuses what CUDA refuses, and keeps its numbers."""

import copy
import threading
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.func import functional_call, grad, jacfwd, jacrev, jvp, vmap

from tests.conftest import pytest_configure
from tests.devices.pretended_gpu import counted


@pytest.fixture
def x(device):
    return torch.arange(1.0, 7.0, device=device).view(2, 3)


MIXED = {
    "sum": lambda x: x + torch.ones(3),
    "product": lambda x: x @ torch.ones(3),
    "numbers side by side": lambda x: torch.stack([x[0, 0], torch.tensor(1.0)]),
    "rows": lambda x: x.index_select(0, torch.tensor([0])),
    "tensor of the CPU by indices there": lambda x: torch.ones(3)[torch.arange(2, device="cuda")],
    "values put in": lambda x: x.clone().index_put_((torch.tensor([0]),), torch.ones(3)),
    "linear": lambda x: torch.nn.Linear(3, 2)(x),
    "within vmap": lambda x: vmap(lambda row: row + torch.ones(3))(x),
    "generator": lambda x: torch.rand(3, device="cuda", generator=torch.Generator()),
}


@pytest.mark.parametrize("name", MIXED)
def test_tensors_of_two_devices_do_not_mix(x, name):
    with pytest.raises(RuntimeError, match=r"same device|indices should be|device type"):
        MIXED[name](x)


def test_arrays_are_copied_explicitly(x):
    with pytest.raises(TypeError, match=r"Use Tensor.cpu\(\)"):
        x.numpy()
    with pytest.raises(TypeError, match=r"Use Tensor.cpu\(\)"):
        np.asarray(x)
    expected = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    assert x.tolist() == x.cpu().numpy().tolist() == x.numpy(force=True).tolist() == expected


def test_what_may_come_from_the_cpu(x):
    assert x[torch.tensor([1])].tolist() == x[[1]].tolist() == [[4.0, 5.0, 6.0]]
    assert x[torch.tensor([True, False])].tolist() == [[1.0, 2.0, 3.0]]
    assert (x * torch.tensor(2.0)).tolist()[0] == [2.0, 4.0, 6.0]  # one number
    assert x.clone().copy_(torch.zeros(2, 3)).sum().item() == 0


def test_everything_made_for_the_device_is_there(x, device):
    made = [
        torch.zeros(2, device="cuda"),
        torch.tensor([1.0, 2.0], device=device),
        torch.as_tensor(np.ones(2), device=device),
        torch.rand_like(x),
        torch.ones(3).to("cuda"),
        torch.ones(3).cuda(),
        torch.ones(3).to(x),
        x.new_zeros(3),
        x.new_tensor([1.0]),
        torch.eye(3, device=x.device),
    ]
    assert {part.device for part in made} == {device}
    assert all(part.is_cuda and not part.is_cpu and not part.is_meta for part in made)
    assert made[1].tolist() == [1.0, 2.0]


def test_views_share_their_numbers(x):
    x[0].add_(1.0)
    x.T[2] = 0.0
    x.data = x.data.view(3, 2)
    assert x.tolist() == [[2.0, 3.0], [0.0, 4.0], [5.0, 0.0]]


def test_modules_move_there_and_back(device):
    module = torch.nn.Linear(3, 2)
    weight, expected = module.weight, module.weight.tolist()
    module.to(device)
    assert module.weight is weight and isinstance(weight, torch.nn.Parameter)
    assert weight.device == device and weight.tolist() == expected
    twin = copy.deepcopy(module)
    twin.load_state_dict(module.state_dict())
    assert twin.weight is not weight and twin.weight.device == device
    assert module.cpu().weight.device.type == "cpu"


def test_transforms(x, device):
    def f(v):
        assert v.device == device
        return v.sin() @ torch.ones(3, device=v.device) + v.new_zeros(())

    by_row = x.cos()
    for derivative in (vmap(jacrev(f))(x), vmap(jacfwd(f))(x), vmap(grad(f))(x)):
        assert derivative.device == device
        torch.testing.assert_close(derivative, by_row)
    torch.testing.assert_close(jvp(torch.sin, (x,), (x,))[1], x * by_row)
    module = torch.nn.Linear(3, 2).to(device)
    weights = {name: torch.zeros_like(value) for name, value in module.named_parameters()}
    assert functional_call(module, weights, (x,)).tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_other_threads_have_the_device(device):
    found = []
    thread = threading.Thread(
        target=lambda: found.append(torch.ones(2, device="cuda").sum().item())
    )
    thread.start()
    thread.join()
    assert found == [2.0]


def test_waits_are_counted(device, is_pretended):
    if not is_pretended:
        pytest.skip("a GPU counts nothing")
    with counted() as counts:
        x = torch.ones(3).to(device)
        if x.sum() > 1:
            x[x > 0].cpu()
    assert {name: counts[name] for name in ("to device", "to host", "item", "waits")} == {
        "to device": 1,
        "to host": 1,
        "item": 1,
        "waits": 1,
    }


def test_a_gpu_that_is_not_there_is_told_at_once(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    asked = SimpleNamespace(getoption=lambda name: "cuda")
    with pytest.raises(pytest.UsageError, match=r"^--device cuda: PyTorch finds no GPU here"):
        pytest_configure(asked)
