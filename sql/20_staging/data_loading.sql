-- The user ranges in which a thread fetches a batch: those of PyTorch's DataLoader
-- (`enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__` and such) and of its
-- DataPipes (`ShufflerIterDataPipe`), of Lightning's and of TorchTNT's loops, of
-- TensorFlow's iterators, and those that users call so (`data`, `data_loading`, `get_batch`,
-- Megatron's `batch-generator`). They may nest.
-- One row per range.
-- Key: annotation_id.
CREATE VIEW staging.data_loading (
    -- The range's event.
    annotation_id,
    -- The trace.
    trace_id,
    -- Host thread.
    thread_id,
    -- [ns] Start.
    start_ns,
    -- [ns] End.
    end_ns
) AS
SELECT annotation_id, trace_id, thread_id, start_ns, end_ns
FROM staging.annotation
WHERE
    regexp_full_match(
        name,
        'enumerate\(Data(Loader|Pipe)\).*'
        '|\w+(Iter|Map)DataPipe\b.*'
        '|\[pl\]\[profile\](\[\w+\]\.\w+_next|get_\w+_batch)'
        '|.*\bnext\(data_iter\)'
        '|IteratorGetNextOp::DoCompute'
        '|(?i:[# ]*(data'
        '|data[ _-]?(load|loading|loader|fetch|fetching|wait|time)'
        '|(get|load|fetch|next|read)[ _-]?(next[ _-]?)?(data|batch|batches|samples?)'
        '|batch[ _-]generator'
        ')[# ]*)'
    );
