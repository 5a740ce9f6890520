"""Kernel models: the time of a kernel from its shape, with a band and a range."""
