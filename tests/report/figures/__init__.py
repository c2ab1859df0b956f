"""Tests of the static figures."""
