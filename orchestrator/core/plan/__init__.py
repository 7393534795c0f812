"""Planning: which configs, in which order, for how long, and which need not run."""
