// Command jetcrew runs background jobs on NATS JetStream: see `jetcrew help`.
package main

import "os"

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
