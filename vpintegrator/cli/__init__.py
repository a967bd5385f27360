"""The commands vp-gen, vp-train, vp-rollout and vp-plot: they parse, report and call the API."""
