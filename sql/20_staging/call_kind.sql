-- What runtime and driver calls do, by their name without the cuda, cu or hip before it.
-- One row per pattern.
-- Key: pattern.
CREATE VIEW staging.call_kind (
    -- Regular expression that the whole name must match.
    pattern,
    -- `launch` puts work on a device, `wait` blocks the host for a device.
    kind,
    -- What a launch puts there, or a wait waits for.
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
    ('enqueueCommand memcpy.*', 'launch', 'memcpy'),
    ('runFunction.*', 'launch', 'kernel'),
    ('synchronizeStream', 'wait', 'stream'),
    ('synchronize', 'wait', 'device')
);
