"""NVRTC, where it is installed: binaries without a GPU, errors, and the cache."""

import sys

import pytest

from vpintegrator.native import NotCompilable, NotWorthIt, nvrtc
from vpintegrator.native.cache import cache_folder
from vpintegrator.native.nvrtc import CudaCompilation, find_nvrtc

SOURCE = 'extern "C" __global__ void fill(double *x) { x[threadIdx.x] = 1; }'


@pytest.fixture
def compiler():
    try:
        return find_nvrtc()
    except NotCompilable as reason:
        pytest.skip(str(reason))


@pytest.fixture
def empty(monkeypatch, tmp_path):
    monkeypatch.setenv("VPINTEGRATOR_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("architecture", [80, 90])
def test_a_binary(compiler, architecture):
    binary, _ = compiler.compile(SOURCE, architecture)
    assert binary.startswith(b"\x7fELF")


def test_newer_gpus_get_what_their_driver_compiles(compiler):
    newest = compiler.architectures[-1]
    binary, _ = compiler.compile(SOURCE, newest + 1)
    assert f".target sm_{newest}".encode() in binary
    with pytest.raises(NotCompilable, match="GPUs as old as this"):
        compiler.compile(SOURCE, 10)


def test_errors_are_said(compiler, empty):
    compilation = CudaCompilation("int x = y;", 90)
    with pytest.raises(NotCompilable, match=r"NVRTC failed: .*y"):
        compilation.binary()
    assert list(cache_folder().iterdir()) == []


def test_the_cache_is_used(compiler, empty, monkeypatch):
    first = CudaCompilation(SOURCE, 90)
    binary = first.binary()
    (path,) = cache_folder().iterdir()
    assert path.suffix == ".cubin"
    assert path.read_bytes() == binary
    monkeypatch.setattr(nvrtc.Nvrtc, "compile", lambda *_: pytest.fail("it was compiled again"))
    again = CudaCompilation(SOURCE, 90, lambda seconds, cached: cached)
    assert again.binary() == binary
    with pytest.raises(NotWorthIt, match="compiling takes about"):
        CudaCompilation(SOURCE, 80, lambda seconds, cached: cached)


def test_a_cache_that_cannot_be_used(compiler, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("VPINTEGRATOR_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(NotCompilable, match="cannot be used"):
        CudaCompilation(SOURCE, 90)


def test_where_there_is_none(monkeypatch, tmp_path):
    """It is looked for beside PyTorch's packages, the version of PyTorch's CUDA first."""
    folder = tmp_path / "nvidia" / "cuda_nvrtc" / "lib"
    folder.mkdir(parents=True)
    for name in ("libnvrtc.so.12", "libnvrtc.alt.so.12", "libnvrtc-builtins.so.12.9"):
        (folder / name).write_text("no library")
    newer = tmp_path / "nvidia" / "cu13" / "lib"
    newer.mkdir(parents=True)
    (newer / "libnvrtc.so.13").write_text("no library")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setattr(nvrtc, "_PLAIN", ())
    monkeypatch.setattr(nvrtc.ctypes.util, "find_library", lambda name: None)
    for major, names in ((12, ["12", "13"]), (13, ["13", "12"]), (None, ["13", "12"])):
        assert [path.rsplit(".", 1)[1] for path in nvrtc._candidates(major)] == names
    find_nvrtc.cache_clear()
    try:
        with pytest.raises(NotCompilable, match="not found: pip install nvidia-cuda-nvrtc-cu12"):
            find_nvrtc(12)
    finally:
        find_nvrtc.cache_clear()
