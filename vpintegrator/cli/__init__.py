"""The commands vp-gen, vp-train, vp-rollout, vp-plot and vp-export: they parse, report and call."""
