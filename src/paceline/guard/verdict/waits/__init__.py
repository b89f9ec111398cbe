"""Whom a rank waits for, and which ranks can never move again."""
