"""Seeded faults of trainings on several processes: what is injected must be named, and nothing may be lost."""
