"""What results state beside what the testbed's log of requests has."""
