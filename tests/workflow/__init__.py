"""Tests of the order of things, over the simulated doors."""
