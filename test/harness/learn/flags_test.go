// SPDX-License-Identifier: Apache-2.0

package learn_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/learn"
)

const (
	goHelp = `Usage of manager:
  -health-probe-bind-address string
    	The address the probe endpoint binds to. (default ":8081")
  -kubeconfig string
    	Paths to a kubeconfig. Only required if out-of-cluster.
  -leader-elect
    	Enable leader election for controller manager.
  -metrics-bind-address string
    	The address the metrics endpoint binds to. (default "0")
  -metrics-secure
    	If set, the metrics endpoint is served securely via HTTPS. (default true)
`
	pflagHelp = `Controller manager

Flags:
      --enable-leader-election             Enable leader election.
      --health-addr string                 The address the health endpoint binds to. (default ":9440")
  -h, --help                               help for manager
      --leader-election-lease-duration duration   Interval (default 35s)
      --leader-election-namespace string   Namespace of the Lease
      --leader-election-renew-deadline duration
      --leader-election-retry-period duration
      --metrics-addr string                The address the metric endpoint binds to. (default ":8080")
      --webhook-port int                   Port of the webhooks (default 9443)
`
	metricsHelp = `Usage of manager:
  -metrics-addr string
    	The address the metric endpoint binds to. (default ":8080")
`
	kuberayHelp = metricsHelp + `  -health-probe-bind-address string
    	The address the probe endpoint binds to. (default ":8082")
  -leader-elect
    	Enable leader election.
`
)

func TestArguments(t *testing.T) {
	lease := "no flag for the duration of the Lease: each death of a leader costs the program's own"
	probe := "no known flag for the address of /readyz; replicas that are not isolated need the argument with 127.0.0.1:{probe}"
	metrics := "no known flag for the address of the metrics; if the program serves any, add the argument with 127.0.0.1:{metrics}"
	for name, tc := range map[string]struct {
		help    string
		shipped []string
		probe   int
		want    []learn.Argument
	}{
		"Scaffold": {goHelp, []string{"--leader-elect", "--health-probe-bind-address=:8081"}, 8081, []learn.Argument{
			{Comment: lease},
			{Text: "--health-probe-bind-address=127.0.0.1:{probe}"}, {Text: "--metrics-bind-address=127.0.0.1:{metrics}"},
			{Text: "--metrics-secure=false"},
		}},
		"ElectionIsOff": {goHelp, nil, 0, []learn.Argument{
			{Text: "--leader-elect=true"}, {Comment: lease},
			{Text: "--health-probe-bind-address=127.0.0.1:{probe}"}, {Text: "--metrics-bind-address=127.0.0.1:{metrics}"},
			{Text: "--metrics-secure=false"},
		}},
		"ElectionIsShippedOff": {goHelp, []string{"--leader-elect=false"}, 0, []learn.Argument{
			{Text: "--leader-elect=true"}, {Comment: lease},
			{Text: "--health-probe-bind-address=127.0.0.1:{probe}"}, {Text: "--metrics-bind-address=127.0.0.1:{metrics}"},
			{Text: "--metrics-secure=false"},
		}},
		"OtherNames": {pflagHelp, []string{"--enable-leader-election"}, 9440, []learn.Argument{
			{Text: "--leader-election-namespace={namespace}"},
			{Text: "--leader-election-lease-duration=4s"}, {Text: "--leader-election-renew-deadline=3s"},
			{Text: "--leader-election-retry-period=500ms"},
			{Text: "--health-addr=127.0.0.1:{probe}"}, {Text: "--metrics-addr=127.0.0.1:{metrics}"},
			{Text: "--webhook-port={webhook}"},
		}},
		"MetricsAreProbed": {kuberayHelp, nil, 8080, []learn.Argument{
			{Text: "--leader-elect=true"}, {Comment: lease},
			{Text: "--health-probe-bind-address=127.0.0.1:0"}, {Text: "--metrics-addr=127.0.0.1:{probe}"},
		}},
		"MetricsAreMoved": {kuberayHelp, []string{"--leader-elect", "--metrics-addr", ":9090"}, 9090, []learn.Argument{
			{Comment: lease},
			{Text: "--health-probe-bind-address=127.0.0.1:0"}, {Text: "--metrics-addr=127.0.0.1:{probe}"},
		}},
		"HealthIsAtThePortOfMetrics": {kuberayHelp, []string{"--leader-elect", "--metrics-addr=:9090",
			"--health-probe-bind-address=:8080"}, 8080, []learn.Argument{
			{Comment: lease},
			{Text: "--health-probe-bind-address=127.0.0.1:{probe}"}, {Text: "--metrics-addr=127.0.0.1:{metrics}"},
		}},
		"MetricsAlone": {metricsHelp, nil, 8080, []learn.Argument{
			{Comment: lease}, {Text: "--metrics-addr=127.0.0.1:{probe}"},
		}},
		"NoHelp": {"flag provided but not defined: -help", nil, 8080,
			[]learn.Argument{{Comment: lease}, {Comment: probe}, {Comment: metrics}}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(learn.Arguments(tc.help, tc.shipped, tc.probe)).To(BeComparableTo(tc.want))
		})
	}
}

func TestReplaceArguments(t *testing.T) {
	g := NewWithT(t)
	chosen := []learn.Argument{{Comment: "no flag for the Lease"}, {Text: "--metrics-addr=127.0.0.1:{metrics}"},
		{Text: "--metrics-secure=false"}}
	want := []learn.Argument{chosen[0], chosen[2], {Text: "--metrics-addr=:1"}, {Text: "--verbose"}}
	g.Expect(learn.ReplaceArguments(chosen, []string{"--metrics-addr=:1", "--verbose"})).
		To(Equal(want))
}
