// SPDX-License-Identifier: Apache-2.0

package env

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

func TestProgramArgs(t *testing.T) {
	flags := []string{"--leader-elect"}
	for name, tc := range map[string]struct{ command, want []string }{
		"NoCommand":  {nil, flags},
		"Program":    {[]string{"/manager"}, flags},
		"Subcommand": {[]string{"/operator", "manager"}, []string{"manager", "--leader-elect"}},
		"Shell":      {[]string{"/bin/sh", "-c", "exec /manager"}, flags},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(ProgramArgs(corev1.Container{Command: tc.command, Args: flags})).To(Equal(tc.want))
		})
	}
}
