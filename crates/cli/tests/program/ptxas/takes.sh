#!/bin/sh
# Stands in for ptxas: takes the text, the sixth argument, if it is not empty.
echo "ptxas info    : Used 128 registers, 1024 bytes smem" >&2
test -s "$6"
