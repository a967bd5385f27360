"""The C++ compiler of the machine, and the libraries it made before."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

FLAGS = (
    "-O2",
    "-std=c++17",
    "-shared",
    "-fPIC",
    "-march=native",
    # none of these changes a result but by rounding, and NaN stays NaN
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fno-trapping-math",
)
_NAMES = ("c++", "g++", "clang++")
_LONGEST = 600  # seconds that the compiler may take
_SECONDS = 5e-6  # that it takes for a character of a source


class NotCompilable(Exception):
    """A model that cannot be compiled, or a machine that cannot compile; says why."""


class NotWorthIt(NotCompilable):
    """Compiling would take longer than it may."""


def cache_folder() -> Path:
    """Where compiled models are kept: ``$VPINTEGRATOR_CACHE``, or a folder in the user's cache."""
    chosen = os.environ.get("VPINTEGRATOR_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "vpintegrator"


def load_library(
    source: str, worth: Callable[[float, bool], bool] = lambda seconds, cached: True
) -> ctypes.CDLL:
    """The library of a C++ source, compiled if it is not in the cache.

    Parameters
    ----------
    source
        The source.
    worth
        Says whether to go on, given the seconds that compiling will take, about, and whether the
        cache has the library.

    Raises
    ------
    NotCompilable
        If there is no compiler, it fails, it is not worth its time, or the cache cannot be used.
    """
    compiler = _find_compiler()
    text = "\0".join([source, *FLAGS, compiler, _version(compiler), _processor()])
    name = hashlib.sha256(text.encode()).hexdigest()[:32]
    folder = cache_folder()
    try:
        _own_folder(folder)
        library = folder / f"{name}.so"
        seconds = _SECONDS * len(source)
        if not worth(seconds, library.exists()):
            raise NotWorthIt(f"compiling takes about {seconds:.0f} seconds, too long here")
        if not library.exists():
            _compile(compiler, source, library)
        return ctypes.CDLL(str(library))
    except OSError as error:
        raise NotCompilable(f"the cache {folder} cannot be used: {error}") from error


def _compile(compiler: str, source: str, library: Path) -> None:
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        text, made = Path(folder) / "model.cpp", Path(folder) / "model.so"
        text.write_text(source, encoding="utf-8")
        command = [compiler, *FLAGS, str(text), "-o", str(made)]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=_LONGEST)
        except subprocess.CalledProcessError as error:
            said = error.stderr.decode(errors="replace").strip().splitlines()
            raise NotCompilable(f"{compiler} failed: {said[0] if said else 'no message'}") from None
        except subprocess.TimeoutExpired:
            raise NotCompilable(f"{compiler} took more than {_LONGEST} seconds") from None
        # two programs may make it at the same time: either is as good
        made.replace(library)


def _own_folder(folder: Path) -> None:
    """Make the cache if need be; what is loaded from it must not be another user's."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if os.name != "posix":
        return
    found = folder.stat()
    if found.st_uid != os.getuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError("it must belong to you, and be writable by nobody else")


def _find_compiler() -> str:
    chosen = os.environ.get("CXX")
    for name in (chosen,) if chosen else _NAMES:
        found = shutil.which(name)
        if found:
            return found
    raise NotCompilable(
        f"the compiler {chosen} in CXX was not found"
        if chosen
        else f"no C++ compiler was found ({', '.join(_NAMES)})"
    )


@functools.cache
def _version(compiler: str) -> str:
    try:
        made = subprocess.run([compiler, "--version"], capture_output=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise NotCompilable(f"{compiler} does not run: {error}") from None
    return made.stdout.decode(errors="replace")


@functools.cache
def _processor() -> str:
    """What ``-march=native`` depends on: a home folder may be shared by unlike machines."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    keys = ("model name", "flags", "Features", "CPU part")
    return "\n".join(sorted({line for line in lines if line.startswith(keys)}))
