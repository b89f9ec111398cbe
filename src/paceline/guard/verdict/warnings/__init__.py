"""What is certain and does not stop a job: one rule, one file. Pure: a snapshot in, warnings out."""
