"""Clients of the listing scenario, one file each; ``conf/listing/client/*.yaml`` name them."""
