"""The options of a broker, a file for each section of its reference page. Those of its store: `store/config.py`."""
