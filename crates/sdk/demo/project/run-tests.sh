#!/bin/sh
# Runs every order in tests/ and compares the totals with the .txt beside it.
cd "$(dirname "$0")" || exit 2
passed=0
failed=0
for order in tests/*.csv; do
  name=$(basename "$order" .csv)
  want=$(cat "tests/$name.txt")
  got=$(sh ./invoice.sh "$order" 2>&1)
  if [ "$got" = "$want" ]; then
    passed=$((passed + 1))
    echo "ok    $name"
  else
    failed=$((failed + 1))
    echo "FAIL  $name"
    echo "$want" | sed 's/^/      expected  /'
    echo "$got" | sed 's/^/      found     /'
  fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
