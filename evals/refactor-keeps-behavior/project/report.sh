#!/bin/sh
echo "== one =="
echo "items: 1"
echo "== two =="
echo "items: 2"
