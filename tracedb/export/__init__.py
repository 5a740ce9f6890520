"""Runs for other tools: Perfetto, speedscope and Chakra."""
