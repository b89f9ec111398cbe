"""How ranks agree: what must be equal is compared, and a problem of one rank reaches all of them."""
