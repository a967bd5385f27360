"""Where models run."""

import pytest

import vpintegrator as vp
from vpintegrator.errors import InputError
from vpintegrator.runtime.devices import check_device


def test_devices_that_are_not_there():
    assert check_device("cpu") == "cpu"
    for name in ("cuda:99", "tpu", "auto", ""):
        with pytest.raises(InputError, match=f"^device = {name}: PyTorch has no such device here"):
            check_device(name)
    with pytest.raises(InputError, match=r"^--device abacus: .*; there is cpu"):
        check_device("abacus", "--device")
    with pytest.raises(InputError, match=r"^device = abacus"):
        vp.train(vp.models.ResidualNetwork(dim=2), "nothing.h5", device="abacus")
