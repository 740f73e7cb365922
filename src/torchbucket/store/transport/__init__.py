"""The transport over libcurl: one thread a store drives its connections, and decides when to try again."""
