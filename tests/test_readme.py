"""Commands and Python of the README and of the documents."""

import importlib
import math
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

import vpintegrator as vp
from vpintegrator.cli.command import COMMANDS, flags_of

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCUMENTS = sorted(
    path for name in ("guides", "reference", "results") for path in ROOT.glob(f"docs/{name}/*.md")
)


def block(language, text=README):
    return re.search(rf"```{language}\n(.*?)```", text, re.DOTALL)[1]


def shortened(code, epochs):
    """The code with trainings of so many iterations in place of a minute."""
    short = re.sub(r"(--seconds |seconds=)60\b", lambda match: SHORT[match[1]] + str(epochs), code)
    assert short != code
    return short


SHORT = {"--seconds ": "--epochs ", "seconds=": "epochs="}


@pytest.mark.thorough
def test_the_python_tour(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code = shortened(block("python"), epochs=3)
    exec(compile(code, "README.md", "exec"), {})
    assert (tmp_path / "figures" / "overview.png").exists()
    assert "validation error" in capsys.readouterr().out
    assert "volume-preserving on windows" in vp.load("body.safetensors").structure.words


def test_the_system_of_ones_own(tmp_path):
    path = tmp_path / "duffing.toml"
    page = (ROOT / "docs" / "reference" / "system-files.md").read_text(encoding="utf-8")
    path.write_text(block("toml", page))
    system = vp.load_system(path)
    assert system.is_hamiltonian
    assert system.vector_field([0.5, 0.0]).tolist() == [0.0, 0.5 - 0.5**3]


def test_sums_of_a_system_file(tmp_path):
    """The chain of the page, against a plain loop."""
    page = (ROOT / "docs" / "reference" / "system-files.md").read_text(encoding="utf-8")
    path = tmp_path / "chain.toml"
    path.write_text(block("toml", page[page.index("## Arrays and sums") :]))
    chain = vp.load_system(path)
    q, p, m = [0.3, -0.2, 0.5], [0.1, 0.4, -0.6], [1.0, 2.0, 1.0]
    kinetic = sum(p[i] ** 2 / (2 * m[i]) for i in range(3))
    potential = -sum(math.cos(x) for x in q) + 0.5 * sum((q[i + 1] - q[i]) ** 2 / 2 for i in (0, 1))
    energy = chain.invariants["energy"]([*q, *p])
    assert energy == pytest.approx(kinetic + potential, rel=1e-14)
    assert chain.dim == 6 and chain.with_parameters({"n": 2, "m": [1.0, 1.0]}).dim == 4


def test_the_table_has_every_command():
    assert re.findall(r"^\| `(vp-[a-z]+) ", README, re.M) == [*COMMANDS]


@pytest.mark.thorough
def test_the_commands_draw_the_figure(tmp_path, monkeypatch):
    """Its vpt errs ten times less than RK4 and keeps the volume of windows as it is iterated."""
    monkeypatch.chdir(tmp_path)
    lines = block("sh", README[README.index("## Commands") :]).splitlines()
    printed = ""
    for line in lines:
        if "--seconds" in line:  # of vpt alone the accuracy counts
            line = shortened(line, epochs=300 if "--model vpt " in line else 3)
        name, *arguments = shlex.split(line, comments=True)
        command = importlib.import_module(f"vpintegrator.cli.{COMMANDS[name][0]}").main
        result = CliRunner().invoke(command, arguments)
        assert result.exit_code == 0, result.output
        printed += result.stdout
    (parameters,) = re.findall(r"`vpt` with (\d+) parameters", README)
    assert f"vpt, {parameters} parameters; volume-preserving on windows" in printed
    table = vp.open_rollout(tmp_path / "rigid-body-rollout.h5").to_frame()
    assert {"vpt", "vpmt", "transformer", "best map"} <= {*table.index}
    assert table["median RMSE"]["vpt"] <= table["median RMSE"]["RK4"] / 10
    assert table["map volume error"]["vpt"] < 1e-13
    assert table["phase-space volume error"]["vpt"] < table["phase-space volume error"]["RK4"]
    assert (tmp_path / "figures" / "overview.png").exists()


ROWS = re.findall(r"^\| ([^|]+) \| ([^|]+) \| \[\w+\]\(([\w/.-]+)", README, re.M)


@pytest.mark.parametrize(("question", "result", "page"), ROWS)
def test_the_numbers_of_results_are_those_of_their_pages(question, result, page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert re.search(r"python scripts/benchmarks/\w+\.py|vp-train ", text)  # what measures them
    for number in re.findall(r"\d[\d.,]*(?:e[+-]?\d+)?", f"{question} {result}"):
        assert re.search(rf"(?<![\d.]){re.escape(number.rstrip('.,'))}(?![\d])", text), number


def command_lines():
    """Lines of README and documents that call our commands, with their page."""
    for path in (ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))):
        text = path.read_text(encoding="utf-8")
        for line in re.findall(r"^(?:    |!|\$ |)(vp-[a-z]+ [^\n`]*)$", text, re.M):
            if "..." not in line and "NAME" not in line:
                yield f"{path.stem}: {line}"


@pytest.mark.parametrize("line", dict.fromkeys(command_lines()))
def test_a_command_of_a_document_has_such_options(line):
    name, *arguments = shlex.split(line.partition(": ")[2], comments=True)
    command = importlib.import_module(f"vpintegrator.cli.{COMMANDS[name][0]}").main
    assert command.make_context(name, arguments).params


def test_the_options_named_exist():
    """Those of our commands, else those of scripts, or of programs that are called beside ours."""
    known = {"--rm", "--constraint", "--nthreads", "--all", "--help", "--version"}
    for name, _ in COMMANDS.values():
        known |= {*flags_of(importlib.import_module(f"vpintegrator.cli.{name}").main)}
    scripts = [path for path in ROOT.glob("scripts/**/*") if path.suffix in (".py", "")]
    sources = "\n".join(path.read_text(encoding="utf-8") for path in scripts if path.is_file())
    for path in (ROOT / "README.md", *ROOT.glob("docs/**/*.md")):
        named = set(re.findall(r"(?<![\w-])--[a-z][\w-]+", path.read_text(encoding="utf-8")))
        assert not {name for name in named - known if f'"{name}' not in sources}, path


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_the_python_of_a_document(path, tmp_path, monkeypatch):
    """Block after block, as one program."""
    monkeypatch.chdir(tmp_path)
    names = {}
    for code in re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(code, path.name, "exec"), names)
