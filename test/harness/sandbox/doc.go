// SPDX-License-Identifier: Apache-2.0

// Package sandbox starts processes as a Pod starts containers, in separate network, mount and UTS
// namespaces.
//
//	s, err := sandbox.New(sandbox.Options{Hostname: "manager-0", Mounts: []sandbox.Mount{
//		{Source: folder, Target: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true},
//	}})
//	defer s.Close()
//	err = s.Reach("127.0.0.1:6443")   // the process reaches this address of the machine, and no other
//	address, err := s.Publish(9443)   // what listens on :9443 inside is reached here
//	err = s.Start(cmd)                // like cmd.Start; more commands may follow
//
// The network has a loopback interface and nothing else. Every connection passes through this
// process: a relay has one end inside and one end outside. There are no virtual devices, routes or
// firewall rules, and nothing is left behind when this process exits, even if it is killed.
//
// The file system is that of the machine, with the mounts on top. A target that does not exist is
// created in memory, never on the machine: the folder above it becomes a tmpfs in which each of its
// entries is bound. Entries that the machine adds to that folder later are not visible inside.
//
// No helper program is involved. A thread of this process enters the namespaces and starts the
// command there, so the started process is the command itself and gets its signals.
//
// Linux allows this for root, and for other users in a user namespace. Enter restarts this program in
// a user namespace. Check reports what is missing.
package sandbox
