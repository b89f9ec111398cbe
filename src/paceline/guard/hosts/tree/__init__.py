"""More hosts than a head can speak to: some of them are relays, through which others speak."""
