"""Static members, and members that change their assignors."""

from tests.live.coterie_static import (
    portable_group,
    test_group_upgrades_to_cooperative_in_two_rolling_restarts,
    test_killed_static_member_comes_back_unnoticed,
    test_rolling_restart_of_static_members_moves_nothing,
)

# Not the test that needs all members on one machine.
__all__ = [
    "portable_group",
    "test_group_upgrades_to_cooperative_in_two_rolling_restarts",
    "test_killed_static_member_comes_back_unnoticed",
    "test_rolling_restart_of_static_members_moves_nothing",
]
