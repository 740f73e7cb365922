"""What requests and bytes cost, by a dated price list that users edit. It asks no service for anything."""
