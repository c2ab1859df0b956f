"""A mixer of another package with a Triton kernel of its own: the IndRNN (`my_kernel.mixer`)."""
