"""Journals as they grow: tailing them, keeping tables up to date, and alerts."""
