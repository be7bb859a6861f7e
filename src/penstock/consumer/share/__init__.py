"""Share groups (KIP-932): members that acquire and acknowledge single records."""
