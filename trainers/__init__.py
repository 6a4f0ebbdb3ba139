"""Trainers: from a curated dataset to the adapter of a critic or a policy. Empty in this version."""
