"""Many hosts, one verdict: a watcher on each host tells the head what its ranks do, and the head judges."""
