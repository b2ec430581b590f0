// SPDX-License-Identifier: Apache-2.0

// Command pause holds the namespaces of a Pod: it does nothing until it gets a signal
// to end. Where it is the first process of a Pod, it also collects orphans.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	heard := make(chan os.Signal, 16)
	signal.Notify(heard, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for sig := range heard {
		if sig != syscall.SIGCHLD {
			return
		}
		// One signal may stand for many children.
		for pid := 1; pid > 0; {
			pid, _ = syscall.Wait4(-1, nil, syscall.WNOHANG, nil) // 0 or an error: none is left
		}
	}
}
