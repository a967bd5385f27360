"""Models of many bodies as loops over clusters, not as straight-line code.

A model whose couplings are sums over clusters is a list of shears, each the same function of many
clusters (``shears``). That function alone is followed and written as C++ with its derivatives
(``cluster_function``, ``kinds``); round it go loops that read from tables which bodies a cluster
has (``source``, ``tables``). So neither the time to compile nor the code knows how many bodies
there are, and a step costs as much as there are clusters. Lanes are trajectories, or clusters where
there is one trajectory alone.

Large models of windows are such lists, too: attention is a shear whose clusters are the elements of
a symmetry group, and a layer of single states has the time steps as clusters (``windows``).
"""

from vpintegrator.compiled.bodies.source import LoopsSource, loops_of

__all__ = ["LoopsSource", "loops_of"]
