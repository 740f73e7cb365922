"""Clients of the listing scenario, one file each; ``conf/listing_client/*.yaml`` name them."""
