"""One option system: declared once, an option has its property file, environment, flag, reload and reference."""
