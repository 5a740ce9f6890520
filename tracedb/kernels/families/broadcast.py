"""Elementwise ops in which an input is smaller than the output and read again."""

from __future__ import annotations

from dataclasses import replace

from . import elementwise

BROADCAST = replace(elementwise.ELEMENTWISE, name="broadcast")
