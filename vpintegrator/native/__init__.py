"""Compilation of C++ sources to libraries, which are loaded and cached.

The modules here do not depend on models or layers, which provide the sources.
"""

from vpintegrator.native.cache import cache_folder
from vpintegrator.native.compiler import (
    Compilation,
    NotCompilable,
    NotWorthIt,
    find_compiler,
    load_library,
)

__all__ = [
    "Compilation",
    "NotCompilable",
    "NotWorthIt",
    "cache_folder",
    "find_compiler",
    "load_library",
]
