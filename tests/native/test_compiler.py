"""The compiler at work: how it ends, and what it leaves behind."""

import time

import pytest

from vpintegrator.native.cache import cache_folder
from vpintegrator.native.compiler import Compilation, NotCompilable
from vpintegrator.runtime.deadline import TimeIsUp, until

SLOW = """#!/bin/sh
test "$1" = --version && exec echo "slow compiler"
echo $$ >> {folder}/started
(sleep 1; touch {folder}/finished) &
wait
"""


@pytest.fixture
def empty(monkeypatch, tmp_path):
    monkeypatch.setenv("VPINTEGRATOR_CACHE", str(tmp_path / "cache"))


def test_a_compiler_that_is_stopped_leaves_nothing(empty, monkeypatch, tmp_path):
    compiler = tmp_path / "slow"
    compiler.write_text(SLOW.format(folder=tmp_path))
    compiler.chmod(0o700)
    monkeypatch.setenv("CXX", str(compiler))
    compilation = Compilation(["int one;", "int two;"])
    started = tmp_path / "started"
    while not started.exists() or len(started.read_text().split()) < 2:
        time.sleep(0.01)
    compilation.stop()
    assert list(cache_folder().iterdir()) == []
    time.sleep(1.2)
    assert not (tmp_path / "finished").exists()
    compilation.stop()  # once more does no harm


def test_a_compiler_at_work_at_the_deadline_is_stopped(empty, monkeypatch, tmp_path):
    compiler = tmp_path / "slow"
    compiler.write_text(SLOW.format(folder=tmp_path))
    compiler.chmod(0o700)
    monkeypatch.setenv("CXX", str(compiler))
    with until(time.perf_counter() + 0.1), pytest.raises(TimeIsUp):
        Compilation(["int one;"]).library()
    time.sleep(1.2)
    assert not (tmp_path / "finished").exists()


def test_it_says_what_the_compiler_says(empty):
    compilation = Compilation(["int fine;", "int not fine;"])
    with pytest.raises(NotCompilable, match=r"failed: .*error"):
        compilation.library()
    assert list(cache_folder().iterdir()) == []


def test_one_library_of_several_sources(empty):
    units = ['extern "C" int one() { return 1; }', 'extern "C" int two() { return 2; }']
    compilation = Compilation(units)
    library = compilation.library()
    assert (library.one(), library.two()) == (1, 2)
    again = Compilation(units)
    assert again.library().two() == 2


COUNTING = """#!/bin/sh
echo "$@" >> '{folder}/calls'
exec c++ "$@"
"""


@pytest.mark.parametrize("name", ["compiler", "a compiler"])
def test_a_compiler_with_arguments(empty, monkeypatch, tmp_path, name):
    compiler = tmp_path / name
    compiler.write_text(COUNTING.format(folder=tmp_path))
    compiler.chmod(0o700)
    source = 'extern "C" int one() { return ONE + WIDE; }'
    monkeypatch.setenv("CXX", f"'{compiler}' -DONE=1 '-DWIDE=2 + 2'")
    assert Compilation([source]).library().one() == 5
    monkeypatch.setenv("CXX", f"'{compiler}' -DONE=7 '-DWIDE=2 + 2'")  # another library
    assert Compilation([source]).library().one() == 11
    assert "-DONE=1 -DWIDE=2 + 2 -O2" in (tmp_path / "calls").read_text()
    monkeypatch.setenv("CXX", str(compiler))  # blanks in a path need no quotes
    assert Compilation(['extern "C" int one() { return 1; }']).library().one() == 1


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("no-such-compiler -m64", "the compiler no-such-compiler in CXX was not found"),
        ("c++ 'open", "CXX is no command: No closing quotation"),
        ("c++ -no-such-flag", "c\\+\\+ (does not run|failed): "),
    ],
)
def test_commands_that_are_none(empty, monkeypatch, command, message):
    monkeypatch.setenv("CXX", command)
    with pytest.raises(NotCompilable, match=message):
        Compilation(["int one;"]).library()
