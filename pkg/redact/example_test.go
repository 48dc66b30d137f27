package redact_test

import (
	"fmt"

	"github.com/jetcrew/jetcrew/pkg/redact"
)

func ExampleText() {
	fmt.Println(redact.Text("dial nats://joe:secret@host:4222: refused"))
	// Output: dial nats://[redacted]@host:4222: refused
}
