"""The catalogue of dataset recipes: one TOML file each, read by :func:`vpintegrator.generate`."""
