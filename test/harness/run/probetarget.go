package run

import (
	"fmt"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/record"
)

// probeTargetOf returns the endpoints of a process for the prober.
func probeTargetOf(process process, proxy *fault.Proxy, webhooks bool) record.Target {
	at := func(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
	ports := process.Ports()
	t := record.Target{
		Name: process.Name(), Probe: at(ports.Probe), Metrics: at(ports.Metrics),
		Watches: func() int { return proxy.Open(fault.Match{Query: map[string]string{"watch": "true"}}) },
	}
	if webhooks {
		t.Webhook = at(ports.Webhook)
	}
	return t
}
