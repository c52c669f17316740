"""The drawings of a report; matplotlib is imported when one is made."""
