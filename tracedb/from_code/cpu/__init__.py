"""Estimate steps on a measured CPU: ops, and host time between them."""
