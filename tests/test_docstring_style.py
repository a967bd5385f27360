"""Summaries of docstrings name their subject: none begins with a relative word."""

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "vpintegrator"
WORDS = "Of What Those Where That How Which As For To From With By When One"
RELATIVE = frozenset(WORDS.split())
WITH_DOCSTRINGS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def begins_relative(docstring):
    words = docstring.split(maxsplit=1)
    return bool(words) and words[0].rstrip(",:;.") in RELATIVE


def docstrings(path):
    """Yield the line and the docstring of a module, its classes and its functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        text = ast.get_docstring(node) if isinstance(node, WITH_DOCSTRINGS) else None
        if text:
            yield node.body[0].lineno, text


def test_summaries_name_their_subject():
    found = [
        f"{path.relative_to(PACKAGE)}:{line} {text.splitlines()[0]}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for line, text in docstrings(path)
        if begins_relative(text)
    ]
    assert not found, "\n".join(found)
