"""The recurrences of the original papers, number by number in float64: what the mixers are held to.

Written from the papers, without a look at the mixers: loops over time, heads and channels, no stabilisation.
"""
