"""Writers: messages of programs that run again after a crash are stored once, and late ones of earlier runs never."""
