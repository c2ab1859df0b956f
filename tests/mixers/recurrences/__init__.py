"""The recurrences of the original papers, number by number in float64: the mixers are compared with them.

Written from the papers, without a look at the mixers: loops over time, heads and channels, no stabilisation.
"""
