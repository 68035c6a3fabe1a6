"""Following journals as they grow: reading what is new, updating tables, and alerts."""
