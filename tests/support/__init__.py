"""What tests share and is not a fixture: servers, cases, programs, settings of Java machines."""
