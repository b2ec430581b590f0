// SPDX-License-Identifier: Apache-2.0

// Package process runs programs as children that end with this process.
//
// If this process ends without a stop (after a panic, a second Ctrl-C or SIGKILL), a small watchdog cleans up. Every
// child is started through a shell script that records its own pid before it executes the program. The watchdog, in a
// separate process group, reads a pipe of which only this process holds the other end. When the pipe closes, the
// watchdog kills the recorded processes that still run and removes the working directory.
package process
