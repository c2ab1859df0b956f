"""What the documentation is made of that is not written by hand."""
