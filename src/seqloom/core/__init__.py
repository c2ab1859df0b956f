"""What all folders share: shapes, configuration, the contracts, states and prices."""
