-- What runtime and driver calls do, by their name without the vendor's prefix (cuda, cu,
-- hip, ur, ze, musa, cnrt, aclrt and similar).
-- One row per pattern.
-- Key: pattern.
CREATE VIEW staging.call_kind (
    -- Regular expression that the whole name must match, after the prefix.
    pattern,
    -- `launch` puts work on a device, `wait` blocks the host until a device is done,
    -- `other` does neither.
    kind,
    -- What a launch puts there, or what a wait waits for; for others `stream_wait` (makes a
    -- stream wait for an event), `capture_begin` and `capture_end` (of a graph).
    target
) AS
FROM (VALUES
    ('(Ext|Module|ExtModule)?Launch(Cooperative)?Kernel.*', 'launch', 'kernel'),
    ('Memcpy.*', 'launch', 'memcpy'),
    ('Memset.*', 'launch', 'memset'),
    ('GraphLaunch.*', 'launch', 'graph'),
    ('StreamSynchronize.*', 'wait', 'stream'),
    ('(Device|Ctx|Context)Synchronize.*', 'wait', 'device'),
    ('EventSynchronize.*', 'wait', 'event'),
    ('StreamWaitEvent.*', 'other', 'stream_wait'),
    ('StreamBeginCapture.*', 'other', 'capture_begin'),
    ('StreamEndCapture.*', 'other', 'capture_end'),
    -- Intel: SYCL's unified runtime and Level Zero.
    ('Enqueue(Cooperative)?KernelLaunch.*', 'launch', 'kernel'),
    ('CommandListAppendLaunch(Cooperative|Multiple)?Kernel.*', 'launch', 'kernel'),
    ('Enqueue(USMMemcpy|Mem(Buffer|Image)(Copy|Read|Write)).*', 'launch', 'memcpy'),
    ('CommandListAppend(Memory|Image)Copy.*', 'launch', 'memcpy'),
    ('Enqueue(USM|MemBuffer)Fill.*', 'launch', 'memset'),
    ('CommandListAppendMemoryFill.*', 'launch', 'memset'),
    ('EnqueueCommandBuffer.*', 'launch', 'graph'),
    ('(QueueFinish|CommandQueueSynchronize|CommandListHostSynchronize).*', 'wait', 'stream'),
    ('(EventWait|(Event|Fence)HostSynchronize).*', 'wait', 'event'),
    ('EnqueueEventsWait.*', 'other', 'stream_wait'),
    -- Cambricon.
    ('InvokeKernel.*', 'launch', 'kernel'),
    ('QueueSync.*', 'wait', 'stream'),
    ('(SyncDevice|CtxSync).*', 'wait', 'device'),
    ('WaitNotifier.*', 'wait', 'event'),
    ('QueueWaitNotifier.*', 'other', 'stream_wait'),
    -- Ascend.
    ('SynchronizeStream.*', 'wait', 'stream'),
    ('SynchronizeDevice.*', 'wait', 'device'),
    ('SynchronizeEvent.*', 'wait', 'event'),
    -- MTIA, whose names have no prefix.
    ('enqueueCommand memcpy.*', 'launch', 'memcpy'),
    ('runFunction.*', 'launch', 'kernel'),
    ('synchronizeStream', 'wait', 'stream'),
    ('synchronize', 'wait', 'device'),
    -- XLA (JAX, TensorFlow), where the host waits for a buffer.
    ('(.*::)?(Await|Block(Host)?UntilReady)', 'wait', 'event'),
    ('np\.asarray\(jax\.Array\)', 'wait', 'event')
);
