"""What every room knows: shapes, configuration, the contract of a mixer, its state and its price."""
