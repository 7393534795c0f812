"""Tests of what core decides."""
