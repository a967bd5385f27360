"""NVRTC, NVIDIA's compiler library for GPUs, which comes with PyTorch and from PyPI."""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import hashlib
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from vpintegrator.native.cache import LibraryCache, cache_folder
from vpintegrator.native.compiler import NotCompilable, NotWorthIt

OPTIONS = ("-fmad=true", "--std=c++17")
_PATTERNS = ("libnvrtc.so.*", "libnvrtc-*.so.*", "nvrtc64_*.dll", "libnvrtc.so")
# folders below one with packages: NVIDIA's for CUDA 13, for CUDA 12, and PyTorch's own
_FOLDERS = ("nvidia/cu*/lib", "nvidia/cu*/bin*", "nvidia/cuda_nvrtc/lib", "nvidia/cuda_nvrtc/bin")
_PLAIN = ("libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12")
_SUFFIX = ".cubin"
# compile time, about, by the squared number of characters of a source: 0.3 s for 50,000, 33 s for
# 500,000
_SECONDS = 1.3e-10


class Nvrtc:
    """The compiler.

    Parameters
    ----------
    library
        Path of the library.

    Attributes
    ----------
    version
        Version of CUDA, such as (12, 9).
    architectures
        Numbers of those that it compiles for, such as 90 for sm_90.

    Raises
    ------
    OSError, AttributeError
        If it is no such library.
    """

    def __init__(self, library: str) -> None:
        self._library = ctypes.CDLL(library)
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p
        major, minor, count = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        self._call("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
        self.version = (major.value, minor.value)
        self._call("nvrtcGetNumSupportedArchs", ctypes.byref(count))
        found = (ctypes.c_int * count.value)()
        self._call("nvrtcGetSupportedArchs", found)
        self.architectures = sorted(found)

    def compile(
        self, source: str, architecture: int, options: Sequence[str] = OPTIONS
    ) -> tuple[bytes, str]:
        """Compile a source; return the binary and the messages of the compiler.

        For an architecture that is newer than the compiler it is PTX of the newest that is known,
        which the driver compiles.

        Raises
        ------
        NotCompilable
            If the source has errors.
        """
        kind, target = "CUBIN", f"sm_{architecture}"
        if architecture not in self.architectures:
            kind, target = "PTX", f"compute_{self._newest(architecture)}"
        arguments = [f"--gpu-architecture={target}", *options]
        program = ctypes.c_void_p()
        text = source.encode()
        self._call("nvrtcCreateProgram", ctypes.byref(program), text, b"model.cu", 0, None, None)
        try:
            encoded = (ctypes.c_char_p * len(arguments))(*(a.encode() for a in arguments))
            failed = self._library.nvrtcCompileProgram(program, len(arguments), encoded)
            said = self._read(program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
            if failed:
                lines = [line for line in said.splitlines() if "error" in line] or [said]
                raise NotCompilable(f"NVRTC failed: {lines[0].strip() or self._message(failed)}")
            return self._read(program, kind), said
        finally:
            self._call("nvrtcDestroyProgram", ctypes.byref(program))

    def _newest(self, architecture: int) -> int:
        older = [known for known in self.architectures if known < architecture]
        if not older:
            raise NotCompilable(
                f"NVRTC {self.version[0]}.{self.version[1]} does not compile for GPUs as old as "
                f"this (sm_{architecture})"
            )
        return older[-1]

    def _read(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._call(f"nvrtcGet{what}Size", program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        self._call(f"nvrtcGet{what}", program, text)
        return text.raw

    def _call(self, name: str, *arguments: object) -> None:
        failed = getattr(self._library, name)(*arguments)
        if failed:
            raise NotCompilable(f"NVRTC failed: {self._message(failed)}")

    def _message(self, failed: int) -> str:
        return str(self._library.nvrtcGetErrorString(failed).decode())


class CudaCompilation:
    """The binary of a source for an architecture, from the cache or from NVRTC.

    Parameters
    ----------
    source
        CUDA without headers.
    architecture
        Architecture of the GPU: 90 for sm_90.
    worth
        Says whether to begin, given the seconds that compiling will take, about, and whether the
        cache has the binary.

    Raises
    ------
    NotCompilable
        If NVRTC is not found, it is not worth its time, or the cache cannot be used.
    """

    def __init__(
        self,
        source: str,
        architecture: int,
        worth: Callable[[float, bool], bool] = lambda seconds, cached: True,
    ) -> None:
        self._compiler = find_nvrtc(_cuda_of_pytorch())
        self._source, self._architecture = source, architecture
        version = ".".join(map(str, self._compiler.version))
        parts = [source, *OPTIONS, str(architecture), version]
        self._name = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
        self._made: bytes | None = None
        try:
            self._cache = LibraryCache(cache_folder(), _SUFFIX)
            found = self._cache.find(self._name)
            if found is not None:
                with suppress(OSError):  # removed meanwhile
                    self._made = found.read_bytes()
        except (OSError, RuntimeError) as error:  # RuntimeError: there is no home folder
            raise _unusable(error) from error
        seconds = _SECONDS * len(source) ** 2
        if not worth(seconds, self._made is not None):
            raise NotWorthIt(f"compiling takes about {seconds:.0f} seconds, too long here")

    def binary(self) -> bytes:
        """Return the binary, compiled now if it is not in the cache.

        Raises
        ------
        NotCompilable
            If NVRTC fails, or the cache cannot be used.
        """
        if self._made is None:
            self._made, _ = self._compiler.compile(self._source, self._architecture)
            try:
                with self._cache.workshop() as folder:
                    path = Path(folder) / f"model{_SUFFIX}"
                    path.write_bytes(self._made)
                    self._cache.add(self._name, path)
            except OSError as error:
                raise _unusable(error) from error
        return self._made


def _unusable(error: Exception) -> NotCompilable:
    return NotCompilable(f"the cache of compiled models cannot be used: {error}")


@functools.cache
def find_nvrtc(major: int | None = None) -> Nvrtc:
    """Load NVRTC of a version of CUDA, or the newest that is installed.

    Raises
    ------
    NotCompilable
        If there is none.
    """
    for path in _candidates(major):
        with suppress(OSError, AttributeError, NotCompilable):
            return Nvrtc(path)
    which = f"nvidia-cuda-nvrtc-cu{major}" if major in (11, 12) else "nvidia-cuda-nvrtc"
    raise NotCompilable(f"NVRTC, the compiler for GPUs, was not found: pip install {which}")


def _candidates(major: int | None) -> Iterator[str]:
    """Return paths where NVRTC may be: beside PyTorch and its packages, and in system folders."""
    found: list[Path] = []
    for entry in dict.fromkeys(sys.path):
        base = Path(entry or ".")
        with suppress(OSError):
            folders = [path for folder in _FOLDERS for path in base.glob(folder)]
            for folder in [*folders, base / "torch" / "lib"]:
                found += [path for pattern in _PATTERNS for path in folder.glob(pattern)]
    plain = [path for path in dict.fromkeys(found) if "builtins" not in path.name]
    plain = [path for path in plain if ".alt." not in path.name]
    yield from map(str, sorted(plain, key=lambda path: _order(path, major)))
    known = ctypes.util.find_library("nvrtc")
    yield from dict.fromkeys([*([known] if known else []), *_PLAIN])


def _order(path: Path, major: int | None) -> tuple[bool, int]:
    """Return a sorting key: the version asked for first, then the newest."""
    numbers = re.search(r"\.so\.(\d+)|nvrtc64_(\d\d)|-[0-9a-f]+\.so\.(\d+)", path.name)
    version = next((int(n) for n in numbers.groups() if n), 0) if numbers else 0
    return version != major, -version


def _cuda_of_pytorch() -> int | None:
    """Return the major version of CUDA in PyTorch, which the driver supports."""
    import torch

    if torch.version.hip is not None:
        raise NotCompilable("machine code for GPUs is CUDA, and this PyTorch is for ROCm")
    return int(torch.version.cuda.split(".")[0]) if torch.version.cuda else None
