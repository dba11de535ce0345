# Reads `item,quantity,price` lines and prints the totals.

BEGIN {
  FS = ","
  VAT = 20
  DISCOUNT = 10
  DISCOUNT_FROM = 10000
}

/^[ \t]*$/ || /^[ \t]*#/ { next }

NF != 3 || $2 !~ /^[0-9]+$/ || $3 !~ /^[0-9]+(\.[0-9][0-9]?)?$/ {
  printf "line %d is not `item,quantity,price`: %s\n", NR, $0
  bad = 1
  exit 1
}

{ subtotal += $2 * to_cents($3) }

END {
  if (bad) exit 1
  discount = subtotal >= DISCOUNT_FROM ? percent(subtotal, DISCOUNT) : 0
  net = subtotal - discount
  vat = percent(net, VAT)
  row("Subtotal", subtotal)
  if (discount > 0) row("Discount", -discount)
  row("VAT " VAT "%", vat)
  row("Total", net + vat)
}

function row(name, cents,    sign) {
  sign = cents < 0 ? "-" : ""
  if (cents < 0) cents = -cents
  printf "%-10s %10s\n", name, sign from_cents(cents)
}
