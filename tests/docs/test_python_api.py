"""The reference of the Python API: every public name is on one page, and every model's argument."""

import importlib
import inspect
import pkgutil
import re
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import vpintegrator as vp

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "reference" / "api"
FACES = (
    "",
    ".compiled",
    ".data",
    ".dynamics",
    ".models",
    ".nn",
    ".plotting",
    ".rollout",
    ".maps",
    ".rollout.diagnostics",
    ".training",
)


@pytest.fixture
def api(site):
    return site("python_api")


def test_every_public_name_is_documented_on_one_page(api):
    pages = api.documented(PAGES)
    objects = [id(api.found(name)) for name, _ in pages]
    for face in FACES:
        module = importlib.import_module(f"vpintegrator{face}")
        for name in module.__all__:
            thing = getattr(module, name)
            if isinstance(thing, ModuleType):
                thing = getattr(thing, name, None)  # vp.rollout can be called
            if thing is not None:
                assert objects.count(id(thing)) == 1, f"{module.__name__}.{name}"


@pytest.mark.parametrize("face", FACES)
def test_only_public_names_are_listed(face):
    """Submodules aside, which Python adds to a package when they are imported."""
    module = importlib.import_module(f"vpintegrator{face}")
    names = {name for name in dir(module) if not name.startswith("_")}
    submodules = {module.name for module in pkgutil.iter_modules(module.__path__)}
    assert names - submodules <= set(module.__all__) <= names


def test_every_name_on_a_page_is_there(api):
    pages = api.documented(PAGES)
    assert len(pages) > 190
    assert len(dict(pages)) == len(pages)
    for name, page in pages:
        assert api.found(name) is not None, f"{name} on {page}"
        parent, _, short = name.rpartition(".")
        module = importlib.import_module(parent)
        assert short in getattr(module, "__all__", dir(module)), f"{name} on {page}"


def test_the_table_of_methods_has_them_all(api):
    table = "\n".join(api.methods())
    for name, method in vp.rollout.METHODS.items():
        assert f"``{name}``" in table
        assert f"- {method.source}" in table


def described(thing):
    """The names that the sections of a docstring with parameters or attributes describe."""
    own = thing.__mro__ if inspect.isclass(thing) else [thing]  # fields are those of bases, too
    text = "\n".join(inspect.cleandoc(each.__doc__ or "") for each in own)
    parts = re.split(r"^(\w[\w ]+)\n-+\n", text, flags=re.MULTILINE)
    sections = zip(parts[1::2], parts[2::2], strict=True)
    entries = [
        line.split(" : ")[0]
        for title, body in sections
        if title in ("Parameters", "Attributes")
        for line in body.splitlines()
        if line and not line.startswith(" ")
    ]
    return {name.strip("* ") for entry in entries for name in entry.split(",")}


def test_every_parameter_is_described(api):
    """Of functions, and of classes that users make, groups of the arguments of models aside."""
    lacking = []
    for name, _ in api.documented(PAGES):
        thing = api.found(name)
        if inspect.isclass(thing) and is_described_elsewhere(thing):
            continue
        if inspect.isclass(thing) or inspect.isfunction(thing):
            given = {p for p in inspect.signature(thing).parameters if not p.startswith("_")}
            # members of groups of arguments are named, and described where the group is
            named = set(re.findall(r"``(\w+)``", inspect.getdoc(thing) or ""))
            missing = given - OF_ALL - described(thing) - named
            lacking += [f"{name}: {parameter}" for parameter in missing]
    assert not lacking, "\n".join(sorted(lacking))


# of layers: in what they compute; of calls with groups of arguments: these, whole
OF_ALL = {"dtype", "args", "arguments", "groups", "layers"}


def is_described_elsewhere(thing):
    """Classical methods, by their base; what other functions make; arguments of models."""
    classical = vp.maps.ClassicalMethod
    bases = (classical, Exception, SimpleNamespace)
    return issubclass(thing, bases) or inspect.isabstract(thing)
