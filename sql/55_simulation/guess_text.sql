-- In words: what scenarios depend on that no trace shows, about threads and waits.
-- One row per scenario and kind of guess.
-- Key: scenario, guess.
CREATE VIEW simulation.guess_text (
    -- The scenario.
    scenario,
    -- What is assumed, and what it matters.
    guess
) AS
WITH
guessed AS (
    SELECT
        scenario,
        kind,
        count(DISTINCT thread_id) AS thread_count,
        max(guess_ns) / 1e6 AS guess_ms,
        100 * max(working_share) AS working_percent,
        arg_max(thread.name, row(guess_ns, -thread_id)) AS thread_name
    FROM simulation.thread_guess AS guess
    INNER JOIN prediction.variant USING (variant_id)
    INNER JOIN staging.thread AS thread USING (thread_id)
    GROUP BY scenario, kind
),

waited AS (
    SELECT scenario, kind, sum(wait_count) AS wait_count, max(guess_ns) / 1e6 AS guess_ms
    FROM simulation.wait_guess
    INNER JOIN prediction.variant USING (variant_id)
    GROUP BY scenario, kind
)

SELECT
    scenario, format(
        CASE kind
            WHEN 'assumed'
                THEN '{0} beside the main one, {1:.1f} % of the steps in {2}: no wait for such a '
                || 'thread is seen, so its work is taken to be done when it is woken '
                || 'again, for which steps wait {3:.3f} ms in all'
            WHEN 'free'
                THEN '{0} beside the main one, {1:.1f} % of the steps in {2}: no wait for such a '
                || 'thread is seen, so it is taken to work by itself, and a step starts '
                || '{3:.3f} ms before what it had done by then'
            ELSE 'rests of {0} may end for another reason than is assumed, in {2}: then '
            || 'they would end up to {3:.3f} ms earlier or later in all'
        END,
        CASE thread_count WHEN 1 THEN '1 thread' ELSE thread_count || ' threads' END,
        working_percent,
        coalesce(thread_name, 'an unnamed one'),
        guess_ms
    )
FROM guessed
UNION ALL
SELECT
    scenario, format(
        CASE kind
            WHEN 'host'
                THEN 'what short waits of the host are for, because it is not recorded: if for '
                || 'other work, {0} of them would end up to {1:.3f} ms earlier or later'
            WHEN 'order'
                THEN 'calls wait for the same work of other threads as recorded: in the order of '
                || 'launches that results, {0} of them would end up to {1:.3f} ms earlier or later'
            WHEN 'send'
                THEN 'sends wait for receivers that come later, which no send of their size is '
                || 'seen to do, or not to do: if not, {0} of them would end up to {1:.3f} ms earlier'
            ELSE 'streams do not wait for work that was over, because such waits are not '
            || 'recorded: with them, {2} would start up to {1:.3f} ms later'
        END,
        wait_count,
        guess_ms,
        CASE wait_count WHEN 1 THEN '1 GPU op' ELSE wait_count || ' GPU ops' END
    )
FROM waited;
