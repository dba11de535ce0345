def parse_duration(text):
    return int(text[:-1])
