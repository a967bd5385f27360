"""Docstrings of what users call are reStructuredText that renders, and their formulas are whole."""

import importlib
import inspect
import re

import pytest
from docutils import nodes
from docutils.core import publish_doctree
from docutils.parsers.rst import roles
from sphinx.ext.napoleon import Config, NumpyDocstring

FACES = (
    "compiled",
    "data",
    "runtime.devices",
    "dynamics",
    "errors",
    "models",
    "nn",
    "plotting",
    "rollout",
    "maps",
    "rollout.diagnostics",
    "runtime.threads",
    "training",
)
OF_SPHINX = ("attr", "class", "data", "exc", "func", "meth", "mod", "obj")
LAYERS = ("Attention", "Coupling", "Potential", "Layer", "Mixing", "Reversible", "Rotated", "Map")


def docstrings(face):
    """The docstrings of a face by the names of their objects, members included."""
    module = importlib.import_module(f"vpintegrator.{face}")
    for name in getattr(module, "__all__", dir(module)):
        thing = getattr(module, name)
        ours = getattr(thing, "__module__", "").startswith("vpintegrator")
        if not ours or not (inspect.isclass(thing) or inspect.isfunction(thing)):
            continue
        yield name, thing.__doc__ or ""
        for member, value in vars(thing).items() if inspect.isclass(thing) else ():
            value = getattr(value, "fget", None) or getattr(value, "func", value)
            told = inspect.isroutine(value) or isinstance(value, (classmethod, staticmethod))
            if told and value.__doc__ and not member.startswith("_"):
                yield f"{name}.{member}", value.__doc__


def rendered(text):
    """The document that Sphinx would make, and what docutils says against it."""
    for role in OF_SPHINX:
        roles.register_local_role(role, lambda *a, **k: ([nodes.literal(a[1], a[2])], []))
    config = Config(napoleon_use_ivar=True, napoleon_use_rtype=False)
    source = str(NumpyDocstring(inspect.cleandoc(text), config))
    said = []
    stream = type("Stream", (), {"write": lambda self, words: said.append(words)})()
    settings = {"warning_stream": stream, "report_level": 2, "default_role": "code"}
    return publish_doctree(source, settings_overrides=settings), "".join(said)


def unbalanced(formula):
    """Whether braces, or \\left and \\right, do not come in pairs."""
    depth = 0
    for mark in re.findall(r"(?<!\\)[{}]", formula):
        depth += 1 if mark == "{" else -1
        if depth < 0:
            return True
    pairs = [len(re.findall(rf"\\{word}(?![a-z])", formula)) for word in ("left", "right")]
    return depth != 0 or pairs[0] != pairs[1]


@pytest.mark.parametrize("face", FACES)
def test_they_are_valid_and_their_formulas_whole(face):
    faults = []
    for name, text in docstrings(face):
        document, said = rendered(text)
        faults += [f"{name}: {said}"] if said else []
        formulas = [*document.findall(nodes.math), *document.findall(nodes.math_block)]
        for formula in (node.astext() for node in formulas):
            if unbalanced(formula) or re.search(r"[\t\r\f\v\a\b]", formula):
                faults.append(f"{name}: {formula!r}")
        # a backslash that Python took for an escape leaves letters behind, or none at all
        if re.search(r"[\t\r\f\v\a\b]", text):
            faults.append(f"{name}: a control character; the docstring begins with r?")
    assert not faults, "\n".join(faults)


def test_layers_say_what_they_compute():
    """As a formula that is set apart, whatever layer of these kinds there is."""
    lacking = []
    for name, text in docstrings("nn"):
        if name.endswith(LAYERS) and not list(rendered(text)[0].findall(nodes.math_block)):
            lacking.append(name)
    assert not lacking
