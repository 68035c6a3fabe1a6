"""The members' side of a group: so far the assignors, which decide who gets which partition."""
