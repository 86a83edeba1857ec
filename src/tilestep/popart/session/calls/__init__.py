"""What a program calls on a session, by subject: each file has the methods of one, and `prepared.py` what all of them share."""
