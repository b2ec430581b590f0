package main

import (
	"fmt"
	"strings"
)

// printCommands prints commands that a user may try.
func (e *environment) printCommands() error {
	path, err := e.plane.KubectlPath()
	if err != nil {
		return err
	}
	kubectl := fmt.Sprintf("%s --kubeconfig %s", path, e.plane.Kubeconfig())
	var text strings.Builder
	fmt.Fprintf(&text, "  kubeconfig  %s\n", e.plane.Kubeconfig())
	fmt.Fprintf(&text, "\n  Things to try in another terminal:\n")
	for _, try := range [][2]string{
		{"list everything", "get tenants,storagebuckets,markdownviews,namespaces,deployments -o wide"},
		{"check that an admin of the sample may work in its namespaces",
			"auth can-i create deployments.apps -n sample-dev --as jane@example.com"},
		{"change a page: its viewers roll, and the address above changes",
			`patch markdownview handbook --type=merge -p '{"spec":{"markdowns":{"on-call.md":"# On call\n\nNobody."}}}'`},
		{"delete a managed bucket and a Tenant, and watch this output", "delete storagebucket/sample-managed tenant/sample"},
	} {
		fmt.Fprintf(&text, "\n  # %s\n  %s %s\n", try[0], kubectl, try[1])
	}
	fmt.Fprintf(&text, "\n  Kill the S3 server (kill -9 %d): its buckets become unreachable with the third failure, and\n"+
		"  Ready again after it has restarted, %v later.\n", e.storage.server.Pid(), restartDelay)
	fmt.Fprintf(&text, "  Kill a replica (kill -9 <process>): the other one takes over, and it starts again as in a Pod.\n")
	fmt.Fprintf(&text, "  Ctrl-C stops everything and leaves nothing behind.")
	e.out.block(text.String())
	return nil
}
