#!/bin/sh
[ "$(./calc.sh add 2 3)" = 5 ] || { echo "add 2 3 is wrong"; exit 1; }
echo ok
