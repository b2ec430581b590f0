// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package sandbox

import (
	"errors"
	"os/exec"
)

// namespaces exist on Linux only.
type namespaces struct{}

var errNotLinux = errors.New("namespaces exist on Linux only")

func newNamespaces(Options) (*namespaces, error)   { return nil, errNotLinux }
func (n *namespaces) start(*exec.Cmd) error        { return errNotLinux }
func (n *namespaces) inNetwork(func() error) error { return errNotLinux }
func (n *namespaces) close() error                 { return nil }

// Check returns an error, because sandboxes need Linux.
func Check() error { return errNotLinux }

// Enter does nothing on this platform.
func Enter() (code int, done bool, err error) { return 0, false, nil }
