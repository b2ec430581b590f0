package main

import (
	"fmt"
	"strings"
)

// invite says what can be tried now.
func (s *stage) invite() error {
	path, err := s.plane.KubectlPath()
	if err != nil {
		return err
	}
	kubectl := fmt.Sprintf("%s --kubeconfig %s", path, s.plane.Kubeconfig())
	var text strings.Builder
	fmt.Fprintf(&text, "  kubeconfig  %s\n", s.plane.Kubeconfig())
	fmt.Fprintf(&text, "\n  Three things to try in another terminal:\n")
	for _, try := range [][2]string{
		{"see the Tenants, and with them the namespaces they own", "get tenants,namespaces -o wide"},
		{"see that an admin of the sample may work in its namespaces", "auth can-i create deployments.apps -n sample-dev --as jane@example.com"},
		{"delete a Tenant and watch here what happens to its namespaces", "delete tenant sample"},
	} {
		fmt.Fprintf(&text, "\n  # %s\n  %s %s\n", try[0], kubectl, try[1])
	}
	fmt.Fprintf(&text, "\n  Kill a replica (kill -9 <process>) to see the other one take over.\n")
	fmt.Fprintf(&text, "  Ctrl-C stops everything and leaves nothing behind.")
	s.out.block(text.String())
	return nil
}
