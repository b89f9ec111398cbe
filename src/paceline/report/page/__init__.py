"""One self-contained HTML page: a verdict, a timeline, who costs time, how even the work is."""
