"""Models of other programs, read from their files: see `load`."""

OF_STATE_SPACES = frozenset({"d_model", "n_layer", "vocab_size"})
"""settings by which a config.json of state-spaces/mamba is known, which names no type"""
PTH = "*.pth"
"""a file that is a whole model, without a config.json: that of an RWKV"""
