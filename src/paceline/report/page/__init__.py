"""One self-contained HTML page of plain values: a verdict, a timeline, who costs time, how even the work is."""
