// Package manager specifies what Leasehold relies on in controller-runtime's
// Manager, and how the runners behave inside one, on a real API server. When a
// new version of controller-runtime behaves differently, it shows here first.
package manager
