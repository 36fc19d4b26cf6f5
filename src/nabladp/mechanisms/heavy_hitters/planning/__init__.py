"""The best settings for public facts, and what they promise. Nothing here decides about privacy."""
