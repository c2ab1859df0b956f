"""The arithmetic that torch executes, counted op by op, with a price for each."""
