-- Probability that two sets of times differ this much, or more, by chance alone: the
-- two-sided Mann-Whitney test, by the normal distribution with corrections for ranks and
-- ties. It tests which times are longer, not by how much, so a single late step decides
-- nothing. NULL if there are so few times that it could never be below 5 % (four per side
-- are enough, or three and five).
CREATE MACRO question.rank_test_p(
    -- Times of the first set, a list.
    one,
    -- Times of the second set.
    other
) AS (
    CASE
        WHEN
            2 * exp(
                lgamma(len(one) + 1) + lgamma(len(other) + 1)
                - lgamma(len(one) + len(other) + 1)
            ) <= 0.05
            -- The normal distribution, by formula 7.1.26 of Abramowitz and Stegun.
            THEN list_transform([
                coalesce(
                    greatest(
                        abs(
                            list_sum([
                                list_sum([sign(x - y) for y in other]) for x in one
                            ]) / 2
                        ) - 0.5,
                        0
                    )
                    / nullif(sqrt(
                        len(one) * len(other) / 6.0 * (
                            len(one) + len(other) + 1
                            - list_sum([
                                len([y for y in one || other if x = y]) ** 2 - 1
                                for x in one || other
                            ])
                            / ((len(one) + len(other)) * (len(one) + len(other) - 1))
                        )
                    ), 0),
                    0
                )
            ], lambda z: list_reduce(
                [1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592, 0],
                lambda total, factor: total / (1 + 0.3275911 * z) + factor
            ) * exp(-z * z))[1]
    END
);
