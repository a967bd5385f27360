"""What architectures need besides the number of components."""

from typing import Any


def needed(name: str, dim: int = 4) -> dict[str, Any]:
    """Equations for those that step known ones."""
    if name not in ("split", "classical"):
        return {}
    n = dim // 2
    if dim % 2:
        return {"field": [f"sin(z[{(i + 1) % dim}])/10" for i in range(dim)]}
    terms = [f"z[{n + i}]**2/2 - cos(z[{i}])" for i in range(n)]
    return {"hamiltonian": " + ".join([*terms, f"z[0]*z[{n - 1}]/5"])}
