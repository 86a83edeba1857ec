"""Options of a session, and what each one does here."""
