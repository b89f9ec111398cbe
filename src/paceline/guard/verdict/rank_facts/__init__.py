"""What a snapshot says of a rank beside its calls: tables of counts, edges of a topology, functions that it serves."""
