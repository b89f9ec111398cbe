"""Looking at ranks on other hosts: what hosts tell while somebody looks, and to whom the head shows it."""
