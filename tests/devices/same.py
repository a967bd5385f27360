"""The same numbers on a device as on the CPU, to rounding."""

import copy

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from tests.devices.pretended_gpu import on_the_cpu

ROUNDING = 1e-12  # of numbers of size 1


def assert_same(found, expected, device, tolerance=ROUNDING, name="numbers"):
    """``found`` is on the device, and has the numbers of ``expected``, which is on the CPU."""
    assert found.device == device and expected.device.type == "cpu"
    size = max(1.0, float(expected.detach().abs().max())) if expected.numel() else 1.0
    torch.testing.assert_close(
        found.detach().cpu(),
        expected.detach(),
        rtol=0,
        atol=tolerance * size,
        msg=lambda message: f"{name}: {message}",
    )


def assert_same_map(module, x, device, tolerance=ROUNDING, transforms=True):
    """Values, derivatives by everything, the inverse if there is one, derivatives by transforms."""
    there, x_there = copy.deepcopy(module).to(device), x.to(device)
    for part in (*there.parameters(), *there.buffers()):
        assert part.device == device
    inverse = getattr(module, "invertible", getattr(module, "volume_preserving", False))
    found = _values(there, x_there, inverse, transforms)
    with on_the_cpu():
        expected = _values(module, x, inverse, transforms)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert_same(found[name], value, device, tolerance, name)
    return there


def _values(module, x, inverse, transforms):
    """By name: what a module makes of x, and its derivatives."""
    x = x.clone().requires_grad_()
    y = module(x)
    weights = 1 + torch.arange(y.numel(), device=y.device).view(y.shape) % 7
    (weights * y).sum().backward()
    found = {"value": y, "derivative": x.grad}
    for name, parameter in module.named_parameters():
        if parameter.grad is not None:
            found[f"derivative by {name}"] = parameter.grad
            parameter.grad = None
    if transforms:
        with sdpa_kernel(SDPBackend.MATH):  # others have no forward mode
            found["forward"] = torch.func.jvp(module, (x.detach(),), (torch.ones_like(x),))[1]
        with torch.no_grad():
            found["jacobian"] = torch.func.vmap(torch.func.jacrev(module))(x.detach())
    if inverse:
        with torch.inference_mode():
            found["inverse"] = module.inverse(x.detach())
    return found
