"""Checks of what users pass, before anything is built or stepped."""
