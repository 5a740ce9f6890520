"""Which sizes of recorded tensors follow the batch size, inferred from the ops."""
