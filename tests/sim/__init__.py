"""Tests of the simulated engine: the model, its doors, and the server that stands in for SGLang."""
