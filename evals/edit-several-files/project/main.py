from lib import greet

print(greet("Ada"))
