"""The demo: a real job on a real molecule, with a server and two workers, all gone afterwards."""
