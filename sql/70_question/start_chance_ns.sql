-- [ns] By how much the medians of two starts of one program may differ by chance. Starts
-- differ by more than the error of their medians: other processes, placement of threads and
-- memory, and clocks last longer than a run. Two runs do not show by how much, so starts
-- are taken to differ as steps do, and few steps to show that badly. Measured for one
-- program on a CPU, starts differed 0.8 to 1.6 times as much as steps. NULL if both sides
-- have fewer than four steps.
CREATE MACRO question.start_chance_ns(
    -- Times of the steps of one start, a list.
    one,
    -- Times of the other's.
    other
) AS (
    1.75 * (1 + 4 / nullif(len(one) + len(other) - 2, 0))
    * sqrt(2 * list_avg([
        (1.4826 * list_mad(times)) ** 2 for times in [one, other] if len(times) >= 4
    ]))
);
