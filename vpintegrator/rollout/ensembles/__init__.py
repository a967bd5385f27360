"""Very many trajectories of one map: statistics, made in shards by processes or clusters."""

from vpintegrator.rollout.ensembles.result import EnsembleStatistics, open_ensemble
from vpintegrator.rollout.ensembles.run import EnsembleMeasures, ensemble

__all__ = ["EnsembleMeasures", "EnsembleStatistics", "ensemble", "open_ensemble"]
