#!/bin/sh
echo "3 items"
