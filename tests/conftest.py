"""Settings that all tests share: repeatable property tests without time limits."""

import hypothesis

hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, max_examples=30)
hypothesis.settings.load_profile("ci")
