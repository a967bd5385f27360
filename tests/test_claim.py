"""Locks: one process at a time, and none once it is gone."""

import multiprocessing

import pytest

from vpintegrator.errors import InputError
from vpintegrator.storage.lock_file import claim, claim_folder

pytest.importorskip("fcntl")


def _refused(path, is_folder):
    """Run by another process: exits with 0 if it is refused."""
    taken = claim_folder(path, "somebody writes to") if is_folder else claim(path)
    with pytest.raises(InputError, match="wait for it"), taken:
        pass


@pytest.mark.parametrize("is_folder", [False, True])
def test_another_process_waits(tmp_path, is_folder):
    path = tmp_path if is_folder else tmp_path / "a.h5"
    with claim_folder(path, "somebody writes to") if is_folder else claim(path):
        other = multiprocessing.get_context("fork").Process(target=_refused, args=(path, is_folder))
        other.start()
        other.join()
        assert other.exitcode == 0
    with claim_folder(path, "somebody writes to") if is_folder else claim(path):
        pass  # it is free again
    assert not list(tmp_path.iterdir())
