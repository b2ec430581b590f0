// Package suite measures how long those wait who run the tests: until a control
// plane has started, beside the one of envtest, and until the integration suites
// are through, beside what their work alone would take.
package suite
