// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
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
	const lease = "no flag for the duration of the Lease: each death of a leader costs the program's own"
	const probe = "no known flag for the address of /readyz; replicas that are not isolated need the argument with 127.0.0.1:{probe}"
	const metrics = "no known flag for the address of the metrics; if the program serves any, add the argument with 127.0.0.1:{metrics}"
	const elect, secure = "--leader-elect=true", "--metrics-secure=false"
	const healthAt, metricsAt = "--health-probe-bind-address=127.0.0.1:{probe}", "--metrics-bind-address=127.0.0.1:{metrics}"
	const healthAnywhere, metricsProbed = "--health-probe-bind-address=127.0.0.1:0", "--metrics-addr=127.0.0.1:{probe}"
	for name, tc := range map[string]struct {
		help    string
		shipped []string
		probe   int
		want    []string // arguments and comments
	}{
		"Scaffold": {goHelp, []string{"--leader-elect", "--health-probe-bind-address=:8081"}, 8081,
			[]string{lease, healthAt, metricsAt, secure}},
		"ElectionIsOff":        {goHelp, nil, 0, []string{elect, lease, healthAt, metricsAt, secure}},
		"ElectionIsShippedOff": {goHelp, []string{"--leader-elect=false"}, 0, []string{elect, lease, healthAt, metricsAt, secure}},
		"OtherNames": {pflagHelp, []string{"--enable-leader-election"}, 9440, []string{
			"--leader-election-namespace={namespace}", "--leader-election-lease-duration=4s",
			"--leader-election-renew-deadline=3s", "--leader-election-retry-period=500ms",
			"--health-addr=127.0.0.1:{probe}", "--metrics-addr=127.0.0.1:{metrics}", "--webhook-port={webhook}",
		}},
		"MetricsAreProbed": {kuberayHelp, nil, 8080, []string{elect, lease, healthAnywhere, metricsProbed}},
		"MetricsAreMoved": {kuberayHelp, []string{"--leader-elect", "--metrics-addr", ":9090"}, 9090,
			[]string{lease, healthAnywhere, metricsProbed}},
		"HealthIsAtThePortOfMetrics": {kuberayHelp, []string{"--leader-elect", "--metrics-addr=:9090",
			"--health-probe-bind-address=:8080"}, 8080, []string{lease, healthAt, "--metrics-addr=127.0.0.1:{metrics}"}},
		"MetricsAlone": {metricsHelp, nil, 8080, []string{lease, metricsProbed}},
		"NoHelp":       {"flag provided but not defined: -help", nil, 8080, []string{lease, probe, metrics}},
	} {
		t.Run(name, func(t *testing.T) {
			var want []Argument
			for _, text := range tc.want {
				if strings.HasPrefix(text, "--") {
					want = append(want, Argument{Text: text})
				} else {
					want = append(want, Argument{Comment: text})
				}
			}
			NewWithT(t).Expect(Arguments(tc.help, tc.shipped, tc.probe)).To(BeComparableTo(want))
		})
	}
}
