package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// heartbeat is how often a long step says that it is still at work.
const heartbeat = 15 * time.Second

// grace is how long a command has to clean up after an interrupt: debootstrap
// unmounts what it mounted.
const grace = 20 * time.Second

// command is exec.CommandContext, but the end of ctx interrupts before it kills.
func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = grace
	return cmd
}

// output runs a command and returns what it printed, without the last newline.
func output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := command(ctx, name, args...)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	text, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, args[0], err, complaint.String())
	}
	return strings.TrimSpace(string(text)), nil
}

// watched runs work and says on log when it begins, that it goes on, and how long it took.
func watched(log io.Writer, step string, work func() error) error {
	fmt.Fprintln(log, step)
	began := time.Now()
	done := make(chan error, 1)
	go func() { done <- work() }()
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			if err != nil {
				return err
			}
			fmt.Fprintf(log, "%s: done in %.1f s\n", step, time.Since(began).Seconds())
			return nil
		case <-tick.C:
			fmt.Fprintf(log, "%s: still at work, %.0f s so far\n", step, time.Since(began).Seconds())
		}
	}
}

// quietly runs a command whose output matters only when it fails.
func quietly(cmd *exec.Cmd) error {
	var said strings.Builder
	if cmd.Stdout == nil {
		cmd.Stdout = &said
	}
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w\n%s", err, said.String())
	}
	return nil
}

// piped runs from with its output as the input of to, and returns what to
// printed, without the last newline.
func piped(from, to *exec.Cmd) (string, error) {
	reader, writer := io.Pipe()
	var said strings.Builder
	from.Stdout, to.Stdin, to.Stdout = writer, reader, &said
	failed := make(chan error, 1)
	go func() {
		err := quietly(from)
		failed <- err
		_ = writer.CloseWithError(err) // to reads to the end, or hears of the failure
	}()
	err := quietly(to)
	_ = reader.Close() // if to ended early, from hears that nobody reads
	return strings.TrimSpace(said.String()), errors.Join(<-failed, err)
}
