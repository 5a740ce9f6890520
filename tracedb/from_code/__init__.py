"""Estimate a training step that never ran, from its code or an execution graph.

A step of code passes through these modules in order: `script` loads it; `fake_run` runs
it on PyTorch's fake tensors; `program` nests its ops; `launches` maps ops to GPU work;
`host_times` gives host times; `timeline` lays the step out in time; `estimation`
ingests the result as a trace. During the run `fake_gpu` stands in for the GPU,
`fake_cuda` for its streams, `fake_ranks` for the other ranks and `fake_mesh` for their
meshes; `composed` decomposes ops that no dispatch mode sees; `lazy` makes lazy modules'
tensors; `data_parallel` averages gradients; `recorder` records ops and `memory`
allocations. For a sweep, `batches` fits functions of the batch size to a few
`recordings`, number by number (`sizes`).

What code does with values is assumed: `unknown` numbers, which `converting` lets the
script's own `int()` keep, go the usual way (`branches`), `draws` are in the middle of
their range, and `selecting` sizes what masks select, by `checks` and `spread`. What is
`refused` is told with its line.

If ranks send to one another, `job_run` runs each in a process, with a `mailbox` for
what they tell one another (`fake_stages`); `joint` finds when they run, and
`job_layout` lays them out.

`graph` reads an execution graph; `graph_step` selects the nodes of a step;
`graph_program` turns them into the same tree. `graph_values` reads arguments, `on_gpu`
replaces ops that only CPUs dispatch (attention by `attention_way`, which holds for
code, too, and `attention_ops`), `graph_collectives` reads collectives and
`graph_memory` derives allocations. This path needs no PyTorch.
"""
