#!/bin/sh
# Prints the totals of an order: a file, or standard input.
here=$(dirname "$0")
exec awk -f "$here/lib/money.awk" -f "$here/lib/invoice.awk" "${1:--}"
