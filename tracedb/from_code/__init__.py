"""Estimate a training step that never ran: from its code, or an execution graph.

A step of code goes through these modules in order: `script` finds it, `fake_run` runs
it on PyTorch's fake tensors (`fake_gpu` answers for the GPU, `fake_cuda` for its
streams, `fake_ranks` for other ranks, `fake_mesh` where these are, `composed` takes
apart what no mode sees, `data_parallel` averages their gradients,
`recorder` notes each op, `memory` what is held), `program` nests its ops, `launches`
says which GPU work they launch and `host_times` how long the host takes, `timeline`
lays that out in time, and `estimation` ingests it as a trace, and answers. For a sweep,
`batches` makes functions of the batch size from a few of its `recordings`, number by
number (`sizes`).

An execution graph is read by `graph`; `graph_step` says which nodes are a step, and
`graph_program` makes them the same tree (`graph_values` reads arguments, `on_gpu` knows
what GPUs dispatch in place of CPUs, `graph_collectives` messages, `graph_memory` what
is held). It needs no PyTorch.
"""
