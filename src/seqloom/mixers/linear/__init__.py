"""Linear attention: softmax replaced by a kernel or a decay, so that the memory is one matrix per head."""
