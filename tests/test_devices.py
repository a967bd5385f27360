"""Where models run, and how that is chosen."""

import time

import pytest

import vpintegrator as vp
from vpintegrator.errors import InputError
from vpintegrator.runtime import devices
from vpintegrator.runtime.devices import Choice, check_device, faster_device


def test_devices_that_are_not_there():
    assert check_device("cpu") == "cpu"
    assert check_device("auto") == "auto"
    for name in ("cuda:99", "tpu", ""):
        with pytest.raises(InputError, match=f"^device = {name}: PyTorch has no such device here"):
            check_device(name)
    with pytest.raises(InputError, match=r"^--device abacus: .*; there is cpu"):
        check_device("abacus", "--device")
    with pytest.raises(InputError, match=r"^device = abacus"):
        vp.train(vp.models.ResidualNetwork(dim=2), "nothing.h5", device="abacus")


@pytest.mark.parametrize(("there", "chosen"), [(0.001, "cuda:0"), (0.03, "cpu")])
def test_the_faster_device_is_measured(monkeypatch, there, chosen):
    """The GPU is taken if it is more than twice as fast; the reason gives both times."""
    seconds = {"cpu": 0.02, "cuda:0": there}
    monkeypatch.setattr(devices, "devices", lambda: ["cpu", "cuda:0", "cuda:1"])
    monkeypatch.setattr("torch.cuda.get_device_name", lambda name: "Abacus 9")

    def work(device):
        return lambda: time.sleep(seconds[device])

    choice = faster_device(work, "a bead")
    assert choice.device == chosen
    assert choice.reason.startswith("a bead takes ")
    assert "on cuda:0 (Abacus 9), 2" in choice.reason


def test_without_a_gpu_nothing_is_timed(monkeypatch):
    monkeypatch.setattr(devices, "devices", lambda: ["cpu"])
    assert faster_device(None, "nothing") == Choice("cpu")
