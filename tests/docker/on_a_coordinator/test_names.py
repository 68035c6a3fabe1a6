"""Static members, and members that change their assignors."""

from tests.live.coterie_names import (
    team,
    test_group_goes_over_to_cooperative_in_two_bounces,
    test_killed_static_member_comes_back_unnoticed,
    test_rolling_restart_of_static_members_moves_nothing,
)

# Not the one that expects everybody to be on one machine.
__all__ = [
    "team",
    "test_group_goes_over_to_cooperative_in_two_bounces",
    "test_killed_static_member_comes_back_unnoticed",
    "test_rolling_restart_of_static_members_moves_nothing",
]
