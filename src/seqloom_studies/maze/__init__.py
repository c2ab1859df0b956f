"""Agents that must remember a cue, in T-mazes of growing length."""
