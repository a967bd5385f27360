"""Libraries of C++ sources: made by the compiler of the machine, kept in a cache, called by ctypes.

A library is code that runs with the user's rights: the folder of the cache must be the user's, and
writable by nobody else. Several programs may use it at the same time.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import hashlib
import os
import platform
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import numpy as np

from vpintegrator.runtime.interrupts import check_time

S = TypeVar("S")
T = TypeVar("T")

FLAGS = (
    "-O2",
    "-std=c++17",
    "-fPIC",
    "-march=native",
    # none of these changes a result but by rounding, and NaN stays NaN
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fno-trapping-math",
)
LARGEST = 1 << 30  # bytes of all libraries in the cache
_NAMES = ("c++", "g++", "clang++")
_LONGEST = 600  # seconds that the compiler may take
_LOOK = 0.1  # seconds between two looks at the time
_SECONDS = 5e-6  # for each character of a source
_WORKSHOP = "making-"
_LEFT = 86400  # seconds after which no compiler is at work in a folder any more
_LINE = 64  # bytes of a line of the cache of the processor
_PARTS = 4  # for each thread, so that none waits long for one whose core is busy with else
REALS = {np.dtype(np.float64): "double", np.dtype(np.float32): "float"}


class NotCompilable(Exception):
    """A model that cannot be compiled, or a machine that cannot compile; says why."""


class NotWorthIt(NotCompilable):
    """Error for a source whose compilation would take too long."""


def load_library(source: str) -> ctypes.CDLL:
    """Load the library of a C++ source; compile it if it is not in the cache.

    Parameters
    ----------
    source
        The C++.

    Raises
    ------
    NotCompilable
        If there is no compiler, it fails, or the cache cannot be used.
    """
    return Compilation([source]).library()


class Compilation:
    """A library that is in the cache, or that the machine's compiler is making meanwhile.

    Parameters
    ----------
    units
        C++ sources of one library, compiled side by side.
    worth
        Says whether to begin, given the seconds that compiling will take, about, and whether the
        cache has the library.

    Raises
    ------
    NotCompilable
        If there is no compiler, it is not worth its time, or the cache cannot be used.
    """

    def __init__(
        self,
        units: Sequence[str],
        worth: Callable[[float, bool], bool] = lambda seconds, cached: True,
    ) -> None:
        self._units = units
        self._compiler = find_compiler()
        key = [*units, *FLAGS, *self._compiler, _version(self._compiler), _processor()]
        self._workshop: tempfile.TemporaryDirectory[str] | None = None
        self._processes: list[subprocess.Popen[str]] = []
        try:
            self._path = _library_path(hashlib.sha256("\0".join(key).encode()).hexdigest()[:32])
            seconds = _SECONDS * sum(map(len, units))
            cached = self._path.exists()
            if not worth(seconds, cached):
                raise NotWorthIt(f"compiling takes about {seconds:.0f} seconds, too long here")
            if not cached:
                self._begin()
        except OSError as error:
            raise _unusable(error) from error

    def library(self) -> ctypes.CDLL:
        """Wait for the library and return it.

        Raises
        ------
        NotCompilable
            If the compiler fails, or the cache cannot be used.
        TimeIsUp
            If the compiler is at work at the deadline; it is ended.
        """
        try:
            if self._workshop is None:
                with suppress(OSError):  # removed meanwhile, or made on a machine unlike this one
                    return _load(self._path)
                self._begin()
            self._wait()
            assert self._workshop is not None
            folder = Path(self._workshop.name)
            made = folder / "library"
            objects = sorted(folder.glob("*.o"))
            self._start("-shared", *map(str, objects), "-o", str(made))
            self._wait()
            made.replace(self._path)  # another program may have made the same library
            with suppress(OSError):  # another program prunes, too
                prune(self._path)
            return _load(self._path)
        except OSError as error:
            raise _unusable(error) from error
        finally:
            self.stop()

    def stop(self) -> None:
        """End the compiler, if it is at work still."""
        for process in self._processes:
            if process.poll() is None:
                if os.name == "posix":  # with its child processes
                    os.killpg(process.pid, signal.SIGKILL)
                process.kill()
            process.communicate()
        self._processes = []
        if self._workshop is not None:
            self._workshop.cleanup()
            self._workshop = None

    def _begin(self) -> None:
        self._workshop = tempfile.TemporaryDirectory(prefix=_WORKSHOP, dir=self._path.parent)
        try:
            for number, unit in enumerate(self._units):
                text = Path(self._workshop.name) / f"{number}.cpp"
                text.write_text(unit, encoding="utf-8")
                self._start(*FLAGS, "-c", str(text), "-o", str(text.with_suffix(".o")))
        except BaseException:
            self.stop()
            raise

    def _start(self, *arguments: str) -> None:
        process = subprocess.Popen(
            [*self._compiler, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            errors="replace",
            start_new_session=True,  # an interrupt is for this program to deal with
        )
        self._processes.append(process)

    def _wait(self) -> None:
        end = time.monotonic() + _LONGEST
        for process in self._processes:
            message: str | None = None
            while message is None:
                check_time()
                if time.monotonic() > end:
                    raise NotCompilable(f"{self._compiler[0]} took more than {_LONGEST} seconds")
                with suppress(subprocess.TimeoutExpired):
                    message = process.communicate(timeout=_LOOK)[0]
            if process.returncode:
                first = next(iter(message.strip().splitlines()), "no message")
                raise NotCompilable(f"{self._compiler[0]} failed: {first}")
        self._processes = []


def _load(path: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    with suppress(OSError):  # another program prunes
        os.utime(path)  # used now
    return library


def _unusable(error: Exception) -> NotCompilable:
    return NotCompilable(f"the cache of compiled models cannot be used: {error}")


def find_compiler() -> tuple[str, ...]:
    """Return the command of the compiler: ``$CXX`` with its arguments, or a usual name.

    Raises
    ------
    NotCompilable
        If there is none.
    """
    command = os.environ.get("CXX", "").strip()
    if not command:
        name = next(filter(shutil.which, _NAMES), None)
        if name is None:
            raise NotCompilable(f"no C++ compiler was found ({', '.join(_NAMES)})")
        command = str(shutil.which(name))
    try:
        # a path with blanks is one word
        name, *arguments = [command] if shutil.which(command) else shlex.split(command)
    except ValueError as error:
        raise NotCompilable(f"CXX is no command: {error}") from None
    if not (program := shutil.which(name)):
        raise NotCompilable(f"the compiler {name} in CXX was not found")
    return (program, *arguments)


@functools.cache
def _version(compiler: tuple[str, ...]) -> str:
    try:
        made = subprocess.run([*compiler, "--version"], capture_output=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise NotCompilable(f"{compiler[0]} does not run: {error}") from None
    return made.stdout.decode(errors="replace")


@functools.cache
def _processor() -> str:
    """Return the processor properties that ``-march=native`` depends on.

    They belong to the key of the cache, because unlike machines may share a home folder.
    """
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    keys = ("model name", "flags", "Features", "CPU part")
    return "\n".join(sorted({line for line in lines if line.startswith(keys)}))


def _library_path(name: str) -> Path:
    """Return the place of a library in the cache, or in a temporary folder if it cannot be used.

    The cache is ``$VPINTEGRATOR_CACHE``, or a folder in the user's cache.
    """
    cache = os.environ.get("VPINTEGRATOR_CACHE")
    base = os.environ.get("XDG_CACHE_HOME")
    with suppress(OSError, RuntimeError):  # RuntimeError: there is no home folder
        folder = Path(cache or Path(base or Path.home() / ".cache") / "vpintegrator").absolute()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        about = folder.stat()
        trusted = os.name != "posix" or (about.st_uid == os.getuid() and not about.st_mode & 0o022)
        if trusted and os.access(folder, os.W_OK | os.X_OK):
            return folder / f"{name}.so"
    return _temporary_folder() / f"{name}.so"


@functools.cache
def _temporary_folder() -> Path:
    """Return a folder that is deleted when the program ends."""
    folder = tempfile.mkdtemp(prefix="vpintegrator-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def prune(kept: Path) -> None:
    """Remove libraries used longest ago, and what killed programs have left beside one."""
    libraries = [(path.stat(), path) for path in kept.parent.glob("[0-9a-f]" * 32 + ".so")]
    total = 0
    for about, path in sorted(libraries, key=lambda each: each[0].st_mtime, reverse=True):
        total += about.st_size
        if total > LARGEST and path != kept:
            path.unlink(missing_ok=True)
    for folder in kept.parent.glob(f"{_WORKSHOP}*"):
        if time.time() - folder.stat().st_mtime > _LEFT:
            shutil.rmtree(folder, ignore_errors=True)


def pointer(array: np.ndarray) -> ctypes.c_void_p:
    """Return the address of an array, which must outlive the call."""
    return ctypes.c_void_p(array.ctypes.data)


def aligned(count: int, dtype: type) -> np.ndarray:
    """Return an empty array that begins where a line of the cache of the processor does."""
    size = np.dtype(dtype).itemsize
    space: np.ndarray = np.empty(count + _LINE // size, dtype)
    first = -space.ctypes.data % _LINE // size
    return space[first : first + count]


def parts_of(count: int, lanes: int, parts: int) -> list[slice]:
    """At most so many parts of some trajectories, each but the last a multiple of the lanes."""
    blocks = -(-count // lanes)
    parts = max(min(parts, blocks), 1)
    edges = [k * blocks // parts * lanes for k in range(parts)]
    return [slice(*ends) for ends in pairwise([*edges, count])]


def shared(work: Callable[[slice], None], count: int, lanes: int, threads: int) -> None:
    """Some work on all of so many trajectories, shared among threads in parts of whole lanes."""
    parts = _PARTS * threads if threads > 1 else 1
    in_threads(work, parts_of(count, lanes, parts), threads)


def in_threads(work: Callable[[S], T], parts: Iterable[S], threads: int) -> list[T]:
    """Return the results of ``work`` for each part, computed in threads."""
    if threads < 2:
        return list(map(work, parts))
    return list(_pool(threads).map(work, parts))


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Return threads that wait for work: to start them takes as long as a short step."""
    return ThreadPoolExecutor(threads)


if hasattr(os, "register_at_fork"):  # a child process has no threads but its own
    os.register_at_fork(after_in_child=_pool.cache_clear)
