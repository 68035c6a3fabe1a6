"""What must hold in every run, each rule checked from outside of the system."""
