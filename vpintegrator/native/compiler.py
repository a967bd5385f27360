"""C++ compiler of the machine, and the libraries compiled before."""

from __future__ import annotations

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
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from vpintegrator.native.cache import open_cache
from vpintegrator.runtime.deadline import check_time

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
_NAMES = ("c++", "g++", "clang++")
_LONGEST = 600  # seconds that the compiler may take
_LOOK = 0.1  # seconds between two looks at the time
_SECONDS = 5e-6  # for each character of a source


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
        self._units, self._compiler = units, find_compiler()
        command = [*self._compiler, _version(self._compiler), _processor()]
        text = "\0".join([*units, *FLAGS, *command])
        self._name = hashlib.sha256(text.encode()).hexdigest()[:32]
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._processes: list[subprocess.Popen[bytes]] = []
        try:
            self._cache = open_cache(self._name)
            self._found = self._cache.find(self._name)
            seconds = _SECONDS * sum(map(len, units))
            if not worth(seconds, self._found is not None):
                raise NotWorthIt(f"compiling takes about {seconds:.0f} seconds, too long here")
            if self._found is None:
                self._begin()
        except OSError as error:
            raise self._unusable(error) from error

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
            if self._found is not None:
                # it may have been removed meanwhile, or made on a machine with other libraries
                with suppress(OSError):
                    return ctypes.CDLL(str(self._found))
                self._begin()
            self._wait()
            assert self._folder is not None
            folder = Path(self._folder.name)
            made, objects = folder / "model.so", sorted(folder.glob("*.o"))
            self._start("-shared", *map(str, objects), "-o", str(made))
            self._wait()
            return ctypes.CDLL(str(self._cache.add(self._name, made)))
        except OSError as error:
            raise self._unusable(error) from error
        finally:
            self.stop()

    def stop(self) -> None:
        """End the compiler, if it is at work still."""
        for process in self._processes:
            if process.poll() is None:
                # with its child processes
                if os.name == "posix":
                    os.killpg(process.pid, signal.SIGKILL)
                process.kill()
                process.wait()
        self._processes = []
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _begin(self) -> None:
        self._folder = self._cache.workshop()
        try:
            for number, unit in enumerate(self._units):
                text = Path(self._folder.name) / f"{number}.cpp"
                text.write_text(unit, encoding="utf-8")
                self._start(*FLAGS, "-c", str(text), "-o", str(text.with_suffix(".o")))
        except BaseException:
            self.stop()
            raise

    def _start(self, *arguments: str) -> None:
        with self._messages.open("ab") as messages:
            process = subprocess.Popen(
                [*self._compiler, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=messages,
                stderr=messages,
                start_new_session=True,  # an interrupt is for this program to deal with
            )
        self._processes.append(process)

    def _wait(self) -> None:
        end = time.monotonic() + _LONGEST
        for process in self._processes:
            while process.returncode is None:
                check_time()
                if time.monotonic() > end:
                    raise NotCompilable(f"{self._compiler[0]} took more than {_LONGEST} seconds")
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_LOOK)
            if process.returncode:
                said = self._messages.read_text(errors="replace").strip().splitlines()
                first = said[0] if said else "no message"
                raise NotCompilable(f"{self._compiler[0]} failed: {first}")

    @property
    def _messages(self) -> Path:
        assert self._folder is not None
        return Path(self._folder.name) / "messages"

    def _unusable(self, error: Exception) -> NotCompilable:
        return NotCompilable(f"the cache of compiled models cannot be used: {error}")


def find_compiler() -> tuple[str, ...]:
    """Return the command of the compiler: ``$CXX`` with its arguments, or a usual name.

    Raises
    ------
    NotCompilable
        If there is none.
    """
    chosen = os.environ.get("CXX", "").strip()
    if not chosen:
        for name in _NAMES:
            found = shutil.which(name)
            if found:
                return (found,)
        raise NotCompilable(f"no C++ compiler was found ({', '.join(_NAMES)})")
    try:
        # a path with blanks is one word
        command = [chosen] if shutil.which(chosen) else shlex.split(chosen)
    except ValueError as error:
        raise NotCompilable(f"CXX is no command: {error}") from None
    found = shutil.which(command[0])
    if not found:
        raise NotCompilable(f"the compiler {command[0]} in CXX was not found")
    return (found, *command[1:])


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
