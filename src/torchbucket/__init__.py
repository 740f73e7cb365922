"""PyTorch data sets straight from object storage, addressed by URI."""
