from time.duration import parse_duration

print(parse_duration("5s"))
