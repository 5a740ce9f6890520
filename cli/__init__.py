"""The `tracedb` command: one module a command, each a thin skin over the library."""
