"""What Ray needs: its workers inherit nothing from the driver, and catch what their training function raises."""
