"""Fixed mixing: nothing is learned about which tokens to read."""
