"""What heads attend to: maps are reduced while they stream through meters, and never kept."""
