package kv

import (
	"fmt"
	"strconv"
)

// Sum adds to a stored integer, as every Adapter's Increment does. An integer is written as Increment writes it: decimal
// digits, a minus sign where it is negative, and nothing else; so that one number is not two values to Swap.
func Sum(value string, amount int64) (int64, error) {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != value {
		return 0, fmt.Errorf("%w: the value is none of 64 bits", ErrNotInteger)
	}
	sum := n + amount
	if (sum > n) != (amount > 0) && amount != 0 {
		return 0, fmt.Errorf("%w: the sum leaves 64 bits", ErrNotInteger)
	}
	return sum, nil
}
