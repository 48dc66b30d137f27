package config_test

import (
	"fmt"

	"github.com/jetcrew/jetcrew/pkg/config"
)

// All that is wrong is said at once, and names the variable.
func ExampleLoad() {
	_, err := config.Load([]string{"JETCREW_LEASE=10ms", "JETCREW_REPLICAS=many"}, nil)
	fmt.Println(err != nil)

	cfg, err := config.Load([]string{"JETCREW_QUEUES=default=4,mail=10"}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(cfg.Queues)
	// Output:
	// true
	// default=4,mail=10
}
