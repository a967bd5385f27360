"""The device that tests of devices run on: a GPU, or a pretended one where there is none."""

import pytest
import torch

from tests.compiled.gpu.conftest import host_kernels
from tests.devices.pretended_gpu import pretended_gpu
from vpintegrator.compiled.gpu import kernels


@pytest.fixture(scope="session")
def is_pretended(request):
    return request.config.getoption("--device") == "pretended" or not torch.cuda.is_available()


@pytest.fixture
def device(is_pretended):
    if not is_pretended:
        yield torch.device("cuda", 0)
        return
    with pretended_gpu():
        yield torch.device("cuda", 0)


@pytest.fixture
def machine_code(is_pretended, monkeypatch):
    """Machine code for the device: its kernels are played by the CPU where that is pretended."""
    if is_pretended:
        monkeypatch.setattr(kernels, "kernels_for", host_kernels)
