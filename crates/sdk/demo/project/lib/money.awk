# Amounts are kept as whole cents, so that sums are exact.

# The cents of an amount in text form.
function to_cents(text,    parts) {
  split(text, parts, ".")
  return parts[1] * 100 + parts[2]
}

# The text form of an amount.
function from_cents(cents) {
  return sprintf("%d.%02d", int(cents / 100), cents % 100)
}

# So many per cent of an amount, rounded half up to a cent.
function percent(cents, rate) {
  return int((cents * rate + 50) / 100)
}
