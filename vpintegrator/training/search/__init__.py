"""Search for a model: proposals, the loop that runs them, and the sizes of each kind."""
