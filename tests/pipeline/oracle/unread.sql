-- Lines that could not be taken into account.
SELECT segment, why, node, seq, left(text, 120) AS excerpt FROM raw WHERE why IS NOT NULL
