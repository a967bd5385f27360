"""The house keeps its shape: who imports whom, how long a function is, how much a call takes."""

import ast
import tomllib
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

ROOT = Path(__file__).parents[1]
LONGEST = 60  # lines of a function's body, without its docstring
MOST = 12  # parameters
LINES = 500  # of a file
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def test_imports_go_downwards_and_in_no_circles(capsys):
    # the contracts are in pyproject.toml, the picture of them in docs/reference/architecture.md
    failed = lint_imports(str(ROOT / "pyproject.toml"), cache_dir=None, no_cache=True)
    assert not failed, capsys.readouterr().out


def modules():
    return sorted((ROOT / "vpintegrator").rglob("*.py"))


def functions(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node for node in ast.walk(tree) if isinstance(node, FUNCTIONS)]


def length(function):
    body = function.body
    if ast.get_docstring(function, clean=False) is not None:
        body = body[1:]
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def parameters(function):
    given = function.args
    return len(given.posonlyargs) + len(given.args) + len(given.kwonlyargs)


@pytest.mark.thorough
@pytest.mark.parametrize(("size", "most"), [(length, LONGEST), (parameters, MOST)])
def test_functions_are_read_in_one_sitting(size, most):
    too_large = [
        f"{path.relative_to(ROOT)}: {function.name} has {size(function)}"
        for path in modules()
        for function in functions(path)
        if size(function) > most
    ]
    assert not too_large


def test_files_are_read_in_one_sitting():
    lines = {path: path.read_text(encoding="utf-8").count("\n") for path in modules()}
    assert [str(path.relative_to(ROOT)) for path, count in lines.items() if count > LINES] == []


def test_a_name_means_one_class():
    named = {}
    for path in modules():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                named.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in named.items() if len(paths) > 1} == {}


def test_every_folder_says_what_it_is_for():
    for face in sorted((ROOT / "vpintegrator").rglob("__init__.py")):
        assert ast.get_docstring(ast.parse(face.read_text(encoding="utf-8"))), face


def test_every_folder_is_in_the_wheel():
    with open(ROOT / "pyproject.toml", "rb") as file:
        listed = set(tomllib.load(file)["tool"]["setuptools"]["packages"])
    faces = (ROOT / "vpintegrator").rglob("__init__.py")
    folders = {".".join(face.relative_to(ROOT).parent.parts) for face in faces}
    assert listed == folders | {"vpintegrator.systems", "vpintegrator.datasets"}


def test_the_picture_shows_every_folder_and_every_module_of_the_ground_floor():
    page = (ROOT / "docs/reference/architecture.md").read_text(encoding="utf-8")
    names = {path.stem for path in (ROOT / "vpintegrator").iterdir() if "_" not in path.stem[:2]}
    missing = [name for name in sorted(names - {"py"}) if f"{name}" not in page]
    assert not missing
