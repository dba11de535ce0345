def side(square):
    return square ** 0.5
