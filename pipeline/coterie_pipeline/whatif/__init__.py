"""What-if: groups' histories, replayed in the simulator with other settings."""

from coterie_protocol.extras import needs_extra

with needs_extra("pipeline", "coterie_pipeline"):
    from coterie_pipeline.whatif.answers import HEADINGS, LIMITS, Answer, answers
    from coterie_pipeline.whatif.distribution import Bounds, what_if
    from coterie_pipeline.whatif.plan import Plan
    from coterie_pipeline.whatif.table import WHAT_IF

__all__ = [
    "HEADINGS",
    "LIMITS",
    "WHAT_IF",
    "Answer",
    "Bounds",
    "Plan",
    "answers",
    "what_if",
]
