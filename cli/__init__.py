"""The `tracedb` command: one module a command, each a thin layer over the library."""
