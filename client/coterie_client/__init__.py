"""The asyncio client: group membership, assignors and hand-over of partitions."""
