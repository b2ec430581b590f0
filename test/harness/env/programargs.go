// SPDX-License-Identifier: Apache-2.0

package env

import (
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// wrappers start the program that their arguments name, so their own arguments are not the program's.
var wrappers = []string{"sh", "bash", "ash", "dash", "tini", "dumb-init", "env"}

// ProgramArgs returns the arguments of the container's program: the rest of its command, such as a
// subcommand, and the container's arguments.
func ProgramArgs(c corev1.Container) []string {
	if len(c.Command) == 0 || slices.Contains(wrappers, path.Base(c.Command[0])) {
		return c.Args
	}
	return slices.Concat(c.Command[1:], c.Args)
}
