"""Errors of measurements; each message is one line that says what to do.

MicrobenchError
├── DeviceMissingError  the device, or the package that drives it, is not here
└── UnsupportedError    a case that this backend cannot run; others go on
"""


class MicrobenchError(Exception):
    """Base of all errors that a user can cause and fix; the message is one line."""


class DeviceMissingError(MicrobenchError):
    """There is no such device, or nothing installed that drives it."""


class UnsupportedError(MicrobenchError):
    """A backend has no such op, dtype or direction: the case is left out."""
