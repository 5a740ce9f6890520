"""Synthetic Kineto traces of GPU training jobs with known ground truth.

A program describes what each host thread of each rank does. `execute` computes when and
why everything happens; the truth of each rank is written as a Kineto file:

>>> program = random_program(1, threads=2, streams=3, steps=2, ranks=2)
>>> trace = execute(program, Delays(jitter=0.1), seed=1)[0]
>>> sum(trace.truth.overheads[1, 19392].values()) == trace.truth.steps[0].duration_ns
True

The program, the delays and the seed determine every byte of the output.

Conventions of the file (torch 2.4 and later, or older by `Form`):

- Times: `ts` and `dur` are decimal microseconds with three digits, exact to the
  nanosecond, relative to `baseTimeNanoseconds`, which comes after the events.
  `Form(time_unit="us_integer")` writes whole microseconds without a base, as files of
  2020 to 2023: starts and ends are rounded down, durations are their difference, so
  what nests still nests, and durations may be 0.
- Lanes: host events have the pid of the process and the id of the thread (the main
  thread's equals the pid), GPU events the device as pid and the stream as tid; one rank
  is one process with one device, of the same number.
- Categories: cpu_op, user_annotation, cuda_runtime, cuda_driver (`cu...` calls),
  kernel, gpu_memcpy, gpu_memset, gpu_user_annotation, ac2g, fwdbwd, Trace.
- Steps are user annotations `ProfilerStep#N`. Waits for data are user annotations
  `enumerate(DataLoader)#...`. Main threads wait for autograd without any event.
- `External id` of an op or annotation is its own; of a call and of its kernel that of
  the innermost op around the call, absent outside ops.
  `Form(external_id="correlation")` writes their correlation, as files of 2022 to 2024.
- `correlation` is unique per call. `ac2g` flows have it as id: from launches,
  `cudaStreamWaitEvent`, stream and device waits (`s`) to GPU events (`f`); other calls
  have an `f` of their own, without a start.
- `fwdbwd` flows join the forward and the backward op of one `Sequence number`; forward
  ops have `Fwd thread id` 0, backward ops 1. Ids start at 1.
- Blocking copies have `Pageable` in their name, others `Pinned`.
- Collectives are kernels `ncclDevKernel_...` with `Collective name`, `In msg nelems`,
  `dtype`, `Process Group Name`; the op is `record_param_comms` below `c10d::...`.
- `gpu_user_annotation` spans, per annotation and stream, the kernels launched on the
  thread of the annotation with no other annotation in between.
- `Form(sync_events=True)` adds cuda_sync events: Stream Sync and Stream Wait Event on
  the stream, Event Sync and Context Sync on stream -1, with the stream, event and
  correlation of the `cudaEventRecord` that is waited for.
"""

from .execution import execute
from .kineto import Form, GeneratedTrace
from .operators import Message, Operators, Table
from .partition import OVERHEAD_TYPES, Interval
from .program import (
    Action,
    Annotation,
    Around,
    Await,
    Collective,
    Copy,
    Delayed,
    Delays,
    DeviceSync,
    EventRecord,
    EventSync,
    Gap,
    GraphLaunch,
    Launch,
    Memset,
    Notify,
    Op,
    OtherCall,
    Program,
    ProgramError,
    Rank,
    StreamSync,
    StreamWait,
    Thread,
    Unseen,
    step,
)
from .random_program import Weights, random_program
from .taking_turns import Crew, taking_turns
from .training_job import Model, training_job
from .truth import Edge, HostEvent, Kernel, Step, ThreadWait, Truth

__all__ = [
    "OVERHEAD_TYPES",
    "Action",
    "Annotation",
    "Around",
    "Await",
    "Collective",
    "Copy",
    "Crew",
    "Delayed",
    "Delays",
    "DeviceSync",
    "Edge",
    "EventRecord",
    "EventSync",
    "Form",
    "Gap",
    "GeneratedTrace",
    "GraphLaunch",
    "HostEvent",
    "Interval",
    "Kernel",
    "Launch",
    "Memset",
    "Message",
    "Model",
    "Notify",
    "Op",
    "Operators",
    "OtherCall",
    "Program",
    "ProgramError",
    "Rank",
    "Step",
    "StreamSync",
    "StreamWait",
    "Table",
    "Thread",
    "ThreadWait",
    "Truth",
    "Unseen",
    "Weights",
    "execute",
    "random_program",
    "step",
    "taking_turns",
    "training_job",
]
