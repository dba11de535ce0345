#!/bin/sh
i=1
while [ $i -le 4000 ]; do
  if [ $((i % 100)) -eq 0 ]; then echo "ERROR $i"; else echo "info $i"; fi
  i=$((i + 1))
done
