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
	fmt.Fprintf(&text, "\n  Things to try in another terminal:\n")
	for _, try := range [][2]string{
		{"see what there is", "get tenants,storagebuckets,markdownviews,namespaces,deployments -o wide"},
		{"see that an admin of the sample may work in its namespaces", "auth can-i create deployments.apps -n sample-dev --as jane@example.com"},
		{"change a page, and see its viewers rolled (the address above changes)", `patch markdownview handbook --type=merge -p '{"spec":{"markdowns":{"on-call.md":"# On call\n\nNobody."}}}'`},
		{"delete a bucket that was created for its object, and a Tenant; watch here what happens", "delete storagebucket/sample-managed tenant/sample"},
	} {
		fmt.Fprintf(&text, "\n  # %s\n  %s %s\n", try[0], kubectl, try[1])
	}
	fmt.Fprintf(&text, "\n  Kill the S3 server (kill -9 %d): its buckets become unreachable with the third failure, and well\n"+
		"  again when it comes back after %v.\n", s.storage.server.Pid(), absence)
	fmt.Fprintf(&text, "  Kill a replica (kill -9 <process>) to see the other one take over.\n")
	fmt.Fprintf(&text, "  Ctrl-C stops everything and leaves nothing behind.")
	s.out.block(text.String())
	return nil
}
