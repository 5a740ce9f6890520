"""Estimate a training step from its code alone, for a GPU that it never ran on.

A step goes through these modules in order: `script` finds it, `fake_run` runs it on
PyTorch's fake tensors (`fake_gpu` answers for the GPU, `recorder` notes each op,
`memory` what is held), `program` nests its ops, `launches` says which GPU work they
launch and `host_times` how long the host takes, `timeline` lays that out in time, and
`estimation` ingests it as a trace, and answers. For a sweep, `batches` makes functions
of the batch size from a few of its `recordings`, number by number (`sizes`).
"""

from importlib.util import find_spec

from tracedb.errors import EstimateError

if find_spec("torch") is None:
    raise EstimateError(
        "PyTorch is not installed, which runs the step: pip install 'tracedb[record]'"
    )
