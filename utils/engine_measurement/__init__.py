"""What `measure_engines.py` is made of: a bare server, and four engines that read and write it."""
