"""The operations behind mqadmin: one module for each subject, composed into one `Admin` in `admin.py`."""
