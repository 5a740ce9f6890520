"""Scenarios: edits of a run as data, and the simulation of what they change."""
