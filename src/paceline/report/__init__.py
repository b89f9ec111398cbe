"""Values turned into what people and programs read. It decides nothing and prints nothing."""
