"""The expression language of system files: reading, differentiation, evaluation, typesetting."""
